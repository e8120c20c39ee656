"""Tests marked `sandbox` run in a pytest of their own inside the sandbox."""

from tests.integration.nodes.conftest import pytest_configure, pytest_pyfunc_call

__all__ = ["pytest_configure", "pytest_pyfunc_call"]
