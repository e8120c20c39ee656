"""All logs of a broker over its log.dirs. Implements `broker.runtime.ports.LogStore`.

A log is made once, found again, restored where its files were damaged, or deleted; checkpoints and flushes go over all
of them. Each of these is a part in `broker.log.manager`; the manager joins the parts, and starts and ends them.
Source: kafka LogManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from broker.log.environment import Environment
from broker.log.log import PartitionLog
from broker.log.manager.checkpointing import Checkpointing
from broker.log.manager.closing import LogClosing
from broker.log.manager.creation import LogCreation
from broker.log.manager.deletion import LogDeletion
from broker.log.manager.describing import LogDescribing, OnSpaces
from broker.log.manager.loading import LogLoading
from broker.log.manager.log_dirs import LogDirs
from broker.log.manager.maintenance import LogMaintenance, OnDamage, ignore_damage
from broker.log.manager.moving import LogMoving
from broker.log.manager.open_logs import OpenLogs
from broker.log.manager.repair import LogRepair
from broker.log.manager.topic_settings import TopicConfigs, TopicSettings
from broker.log.manager.unclean_logs import UncleanLogs
from broker.log.recovery.loader import RecoveryReport
from broker.model.ids import Offset, TopicPartition
from broker.model.log_dir_info import LogDirInfo
from broker.model.log_errors import CorruptLog, LogDirFailed


class LogManager:
    """Every method runs on the loop's thread."""

    def __init__(
        self,
        dirs: Sequence[str],
        environment: Environment,
        *,
        defaults: Mapping[str, str] | None = None,
        topic_configs: TopicConfigs | None = None,
        recovery_threads: int = 1,
        on_dir_failed: Callable[[LogDirFailed], None] = lambda failure: None,
        identity: tuple[int, str] | None = None,
    ) -> None:
        """Lock the dirs and open every log in them.

        dirs: log.dirs. defaults: the broker's, under topic-level names (Settings.topic_defaults). topic_configs: topic
        → its overrides, as known at the start. recovery_threads: for all dirs together.
        on_dir_failed: called once per dir, on whatever call finds it out.
        identity: (broker id, cluster id), checked against meta.properties before anything else is read or repaired.
        Raises LogDirInUse, WrongIdentity; LogDirFailed when no dir works.
        """
        self._dirs = LogDirs(dirs, on_dir_failed)
        self._logs = OpenLogs(self._dirs)
        self._unclean = UncleanLogs(self._dirs, self._logs)
        self._settings = TopicSettings(self._logs, defaults or {}, topic_configs or {})
        self._checkpointing = Checkpointing(self._dirs, self._logs, environment)
        self._maintenance = LogMaintenance(self._logs, environment)
        self._deletion = LogDeletion(
            self._dirs, self._logs, self._unclean, self._settings, self._checkpointing, environment
        )
        self._creation = LogCreation(self._dirs, self._logs, self._unclean, self._settings, environment)
        self._repair = LogRepair(
            self._logs, self._unclean, self._settings, self._checkpointing, self._creation, self._deletion, environment
        )
        self.moving = LogMoving(
            self._dirs, self._logs, self._unclean, self._settings, self._creation, self._deletion, environment
        )
        """Moves of logs between the dirs."""
        self._loading = LogLoading(
            self._dirs,
            self._logs,
            self._unclean,
            self._settings,
            self._checkpointing,
            self._deletion,
            self.moving,
            environment,
        )
        self._describing = LogDescribing(self._dirs, self._logs, environment)
        self._closing = LogClosing(self._dirs, self._logs, self._unclean, self._deletion, self.moving)
        try:
            self._dirs.lock()
            if identity is not None:
                self._dirs.ensure_identity(*identity)
            self._loading.load_all(recovery_threads)
            self._dirs.check_any()
        except BaseException:
            self.close_unused()
            raise

    # The dirs

    @property
    def offline_dirs(self) -> list[str]:
        """A partition unknown to `logs` may live in one of these."""
        return self._dirs.offline

    def describe_dirs(self, wanted: Collection[TopicPartition] | None) -> list[LogDirInfo]:
        """Every dir, in the order of log.dirs, with those of its open logs that are wanted; None: all."""
        return self._describing.infos(wanted)

    def measure_dirs(self, then: OnSpaces) -> None:
        """Call `then` with the space of each dir that works, by its path, once its file system has said it."""
        self._describing.spaces(then)

    def check_any_dir(self) -> None:
        """Raise LogDirFailed when every dir is offline: a broker without one has nothing to do."""
        self._dirs.check_any()

    def registered(self, broker_epoch: int, epoch_before: int | None = None) -> None:
        """This broker is registered (anew), and may receive requests to write from now on.

        epoch_before: broker epoch of its last registration before this process, at the first call; None when not known.
        The logs of a dir that was last written under another registration are marked unclean.
        """
        self._unclean.registered(broker_epoch, epoch_before)

    @property
    def clean_shutdown_epochs(self) -> Mapping[str, int | None]:
        """Per dir the broker epoch of the clean stop before this start; None after an unclean one (−1: not said)."""
        return self._loading.clean_shutdown_epochs

    @property
    def reports(self) -> Sequence[RecoveryReport]:
        """One for each log that was loaded, or restored later."""
        return self._loading.reports + self._repair.reports

    # The logs

    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Those that are open and whose dir works."""
        return self._logs.working()

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    @property
    def offline_logs(self) -> dict[TopicPartition, CorruptLog]:
        """Logs whose files are damaged: their replicas stay offline until the log is restored or its folder removed."""
        return self._logs.offline

    def out_of_reach(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is not among `logs` may be there all the same: damaged, or in a dir that failed."""
        return self._logs.out_of_reach(topic_partition)

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str], *, new: bool = True
    ) -> PartitionLog:
        """The partition's log, made in the dir with the fewest partitions unless it is there already.

        topic_id: as Kafka prints it, "" when unknown. config: the topic's overrides, used for all of its logs.
        new: this broker never had that log. A log that it may have had can lie in a dir that is offline: an empty log
        in its place would be a replica without the records that it acknowledged. A log that is made anew is in
        `unclean`.
        Raises CorruptLog when it is there and offline, ValueError when it is there with another id, LogDirFailed.
        """
        self._settings.learn(topic_partition.topic, config)
        return self._creation.find_or_make(topic_partition, topic_id, new=new)

    def restore(self, topic_partition: TopicPartition, topic_id: str, config: Mapping[str, str]) -> PartitionLog:
        """An offline log, cut where its damage begins; an empty one where there is nothing to keep.

        Only for a replica that no committed record depends on: the leader has what is cut. The log is marked unclean,
        on disk too, before anything is cut or made. Raises LogDirFailed.
        """
        self._settings.update(topic_partition.topic, config)
        return self._repair.restore(topic_partition, topic_id)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-delete` at once, remove after file.delete.delay.ms. Also for an offline log.

        Nothing where there is no such log: `out_of_reach` says whether it may be in a dir that is offline.
        Raises LogDirFailed.
        """
        self.moving.forget(topic_partition)
        self._deletion.delete(topic_partition)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename to `….<hex>-stray`, and leave it there for whoever runs this broker. Otherwise as `delete`."""
        self.moving.forget(topic_partition)
        self._deletion.set_aside(topic_partition)

    # Unclean shutdowns

    @property
    def unclean(self) -> Mapping[TopicPartition, str]:
        """Logs that may have lost what they had acknowledged, with the reason, until `clear_unclean`."""
        return self._unclean.reasons

    def is_shortened(self, topic_partition: TopicPartition) -> bool:
        return self._unclean.is_shortened(topic_partition)

    def mark_unclean(self, topic_partition: TopicPartition, reason: str) -> None:
        """Note, for later starts too, that this log may lack what it had acknowledged. Raises LogDirFailed."""
        self._unclean.mark(topic_partition, reason)

    def clear_unclean(self, topic_partition: TopicPartition) -> None:
        """The replica leads or is in the ISR, so that its log has every committed record. Raises LogDirFailed."""
        self._unclean.clear(topic_partition)

    # Settings

    def update_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Replace a topic's overrides. Raises ValueError naming a bad one, changing nothing."""
        self._settings.update(topic, config)

    def learn_config(self, topic: str, config: Mapping[str, str]) -> None:
        """As `update_config`, where the overrides may be those that the logs were opened with already."""
        self._settings.learn(topic, config)

    def update_defaults(self, defaults: Mapping[str, str]) -> bool:
        """Replace the broker's defaults; False where they are the same. Raises ValueError naming a bad one."""
        return self._settings.update_defaults(defaults)

    # Periodic work

    def flush_due(self, on_damage: OnDamage = ignore_damage) -> None:
        """Begin flushes of logs whose flush.ms has passed since their last one."""
        self._maintenance.flush_due(on_damage)

    def close_unread(self) -> None:
        """Close inactive segments where too many are open."""
        self._maintenance.close_unread()

    def delete_old_segments(
        self, wall_ms: float, high_watermarks: Mapping[TopicPartition, Offset], on_damage: OnDamage = ignore_damage
    ) -> int:
        """Apply retention to every log with a known high watermark; returns segments removed."""
        return self._maintenance.delete_old_segments(wall_ms, high_watermarks, on_damage)

    # Checkpoints

    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """As checkpointed before the start."""
        return self._checkpointing.high_watermarks

    def checkpoint_high_watermarks(self, values: Mapping[TopicPartition, Offset]) -> None:
        self._checkpointing.write_high_watermarks(values)

    def checkpoint_recovery_points(self) -> None:
        self._checkpointing.write_recovery_points()

    def checkpoint_log_start_offsets(self) -> None:
        self._checkpointing.write_log_starts()

    # The end

    def close_unused(self) -> None:
        """After a start that failed: the clean-shutdown marks that it removed are written again, for no log was."""
        self._closing.close_unused(self.clean_shutdown_epochs, self.reports)

    def close(self, clean: bool) -> None:
        """clean: flush everything and leave the clean-shutdown mark. Idempotent.

        A dir that has failed, or fails now, gets no mark.
        """
        self._closing.close(clean)
