from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.mutants.lab import Lab


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lab]:
    """Begins at once with the run (`lab_run`) of every test that was selected, so that runs overlap with waiting."""
    lab = Lab(tmp_path_factory.mktemp("lab"), spark)
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    lab.expect(call.params["lab_run"] for call in calls if "lab_run" in call.params)
    yield lab
    lab.close()
