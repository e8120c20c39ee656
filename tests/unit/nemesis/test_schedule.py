from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.plan.fault_kinds import CUTS_LINKS, CUTS_POWER, DAMAGES_FILES, SKEWS_CLOCK
from nemesis import schedule
from nemesis.catalogue import load_catalogue
from nemesis.faults.partition import isolation_scope
from nemesis.kinds import Timing
from nemesis.schedule import Mix, Slot
from tests.support.examples import examples

CATALOGUE = load_catalogue()
KINDS = tuple(CATALOGUE.kinds)
BY_DEFAULT = tuple(name for name, kind in CATALOGUE.kinds.items() if kind.at_random)


def of_effect(effect: str) -> set[str]:
    return {name for name, kind in CATALOGUE.kinds.items() if effect in kind.effects}


CUTS, CLOCKS = of_effect(CUTS_LINKS), of_effect(SKEWS_CLOCK)
FILE_FAULTS = [name for name in of_effect(DAMAGES_FILES) if name not in of_effect(CUTS_POWER)]
SLOW = Timing(session_s=6.0, lag_s=2.0)
DEMO = Timing(session_s=2.5, lag_s=3.0)


def mix(**changes: object) -> Mix:
    fields: dict[str, object] = {
        "kinds": BY_DEFAULT,
        "targets": ("one", "leader", "controller", "minority"),
        "interval_s": (2.0, 4.0),
        "duration_s": (4.0, 7.0),
        "overlap": 1,
        "time_limit_s": 60.0,
        "recovery_s": 8.0,
        "timing": SLOW,
    }
    chosen = {**fields, **changes}
    chosen["kinds"] = CATALOGUE.named(chosen["kinds"])  # type: ignore[arg-type]
    return Mix(**chosen)  # type: ignore[arg-type]


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    def span(high: float) -> tuple[float, float]:
        low = draw(st.floats(0.5, high))
        return low, low + draw(st.floats(0, high))

    limit = draw(st.floats(5, 400))
    timed = st.none() | st.floats(0.5, 20)
    return mix(
        kinds=tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, unique=True))),
        targets=tuple(draw(st.lists(st.sampled_from(["one", "leader", "all", "n1"]), min_size=1, unique=True))),
        interval_s=span(5),
        duration_s=span(8),
        overlap=draw(st.integers(1, 3)),
        time_limit_s=limit,
        recovery_s=schedule.default_recovery_s(limit),
        timing=Timing(draw(timed), draw(timed)),
    )


@examples()
@given(mixes(), st.integers(0, 2**63 - 1))
def test_slots_any_mix_end_before_recovery_and_last_long_enough(mix: Mix, seed: int) -> None:
    drawn = schedule.slots(mix, seed)
    assert drawn == schedule.slots(mix, seed)
    for slot in drawn:
        assert slot.end_s <= mix.time_limit_s - mix.recovery_s
        kind = CATALOGUE.kinds[slot.kind]
        assert slot.duration_s >= max(mix.duration_s[0], schedule.needed_s(kind, mix.timing))
        assert slot.duration_s <= max(mix.duration_s[1], schedule.needed_s(kind, mix.timing))
        assert kind in mix.kinds
    assert sorted(slot.number for slot in drawn) == list(range(len(drawn)))


@examples()
@given(mixes(), st.integers(0, 1000))
def test_slots_of_one_lane_keep_the_quiet_time_and_lanes_bound_the_overlap(mix: Mix, seed: int) -> None:
    drawn = schedule.slots(mix, seed)
    for lane in range(mix.overlap):
        mine = [slot for slot in drawn if slot.lane == lane]
        starts = [slot.start_s for slot in mine]
        for end_s, start_s in zip([0.0, *(slot.end_s for slot in mine)], starts, strict=False):
            assert mix.interval_s[0] <= start_s - end_s + 1e-9
            assert start_s - end_s <= mix.interval_s[1] + 1e-9
    for slot in drawn:
        assert sum(1 for other in drawn if other.start_s <= slot.start_s < other.end_s) <= mix.overlap


@examples()
@given(mixes(), st.integers(0, 1000))
def test_slots_every_kind_comes_up_before_one_repeats(mix: Mix, seed: int) -> None:
    in_draw_order = sorted(schedule.slots(mix, seed), key=lambda slot: slot.number)
    kinds = [slot.kind for slot in in_draw_order]
    size = len(mix.kinds)
    for begin in range(0, len(kinds), size):
        deck = kinds[begin : begin + size]
        assert len(set(deck)) == len(deck)


def first(count: int, seed: int, **changes: object) -> list[Slot]:
    return list(schedule.slots(mix(**changes), seed))[:count]


def test_slots_first_deck_begins_with_what_a_short_run_needs_for_every_seed() -> None:
    for seed in range(50):
        drawn = first(5, seed)
        assert [slot.target.replace("leading-controller", "leader") for slot in drawn[:4]] == [
            "leader",
            "leader",
            "follower",
            "leader",
        ]
        assert [slot.kind for slot in drawn[:3]] == ["kill", "pause", "isolate"]
        assert drawn[3].kind in ("stop", "one-way", "cut-zookeeper")
        assert drawn[1].duration_s > 6.0, "what silences a leader must outlast its session"
        assert drawn[2].duration_s > 3.0, "an isolation must outlast the lag time and the check of it"
        assert drawn[2].wanted == {"scope": "all"}
        assert drawn[4].kind in CLOCKS
        as_in_demo = first(5, seed, timing=DEMO)
        assert as_in_demo[4].end_s < 42.0, "a machine that is slow to restart brokers must have time for them all"


def test_slots_many_short_runs_show_every_kind() -> None:
    drawn = [slot for seed in range(60) for slot in schedule.slots(mix(timing=DEMO), seed)]
    assert {slot.kind for slot in drawn} == set(BY_DEFAULT)
    assert {slot.kind for slot in drawn if slot.target == "leading-controller"} >= {"kill", "pause", "stop", "one-way"}


def test_slots_a_mix_with_file_faults_damages_a_file_in_every_short_run() -> None:
    runs = [schedule.slots(mix(kinds=KINDS, timing=DEMO, interval_s=(1.5, 3.0)), seed) for seed in range(60)]
    for drawn in runs:
        (damage,) = [slot for slot in drawn[:6] if slot.kind in FILE_FAULTS]
        assert damage.number == 3, "others must fail over a replica that is damaged"
    long = mix(kinds=KINDS, timing=DEMO, time_limit_s=240.0)
    assert {slot.kind for seed in range(20) for slot in schedule.slots(long, seed)} == set(KINDS)


def test_slots_controllers_are_hit_only_where_they_are_targets() -> None:
    drawn = [slot for seed in range(20) for slot in schedule.slots(mix(targets=("leader",)), seed)]
    assert {slot.target for slot in drawn} == {"leader", "follower"}


def test_slots_after_the_head_comes_a_partition() -> None:
    for seed in range(50):
        kinds = [slot.kind for slot in schedule.slots(mix(timing=DEMO), seed)]
        assert kinds[5] in CUTS


def test_slots_head_leaves_out_what_the_mix_leaves_out() -> None:
    drawn = first(3, 1, kinds=("kill", "stop", "clock-step"))
    assert [slot.kind for slot in drawn[:2]] == ["kill", "stop"]
    assert drawn[2].kind == "clock-step"


def test_slots_targets_without_roles_are_kept_to() -> None:
    assert {slot.target for slot in first(9, 1, targets=("n1",))} == {"n1"}


def test_slots_two_seeds_differ() -> None:
    assert schedule.slots(mix(time_limit_s=300.0), 1) != schedule.slots(mix(time_limit_s=300.0), 2)


def test_isolation_scope_session_shorter_than_lag_spares_zookeeper() -> None:
    assert isolation_scope(Timing(session_s=4.0, lag_s=3.0)) == "brokers"
    assert isolation_scope(Timing(session_s=9.0, lag_s=3.0)) == "all"


def test_timing_of_settings_left_to_defaults_is_unknown() -> None:
    assert schedule.timing_of({"replica.lag.time.max.ms": "3000"}) == Timing(session_s=None, lag_s=3.0)


def test_needed_s_kill_needs_nothing_and_pause_outlasts_session_and_lag() -> None:
    assert schedule.needed_s(CATALOGUE.kinds["kill"], SLOW) == 0
    assert schedule.needed_s(CATALOGUE.kinds["pause"], Timing(6.0, 30.0)) > 45
    assert schedule.needed_s(CATALOGUE.kinds["cut-zookeeper"], Timing(6.0, 30.0)) == 9.0
    assert schedule.needed_s(CATALOGUE.kinds["cut-zookeeper"], Timing(None, 30.0)) == 0
