"""One error tree for the whole service.

    GpucastError
    ├── SourceError            an exporter, Prometheus or file did not give usable data
    │   ├── SourceUnreachable  no answer (refused, timed out, DNS)
    │   ├── BadReply           an answer that cannot be used (HTTP status, torn, too large, not text)
    │   └── StaleSource        an answer that stopped changing
    ├── DataError              data inside the service breaks a law
    │   ├── SchemaError        wrong columns, shapes or types
    │   ├── StoreError         the sample store cannot be opened, read or written
    │   │   └── StoreFull      its disk has no room
    │   └── LeakError          something would read later than its cutoff
    ├── ModelError
    │   ├── NotFitted
    │   └── IncompatibleModel  a saved model of another version, shape or digest
    ├── AdviceError
    ├── BackendError           a scheduler refused or could not be reached
    │   ├── BackendRefused
    │   ├── BackendConflict    the world changed since the snapshot
    │   └── BackendUnreachable
    └── ConfigError            a flag, file or key the user can mend

Each error keeps its fields; foreign errors are translated once, at the adapter, with ``raise ... from``.
"""

from __future__ import annotations


class GpucastError(Exception):
    """Base of everything this service raises on purpose.

    Args:
        message: a sentence that names the thing at fault.
        mend: what the reader can do about it; empty where nothing helps.
    """

    def __init__(self, message: str, *, mend: str = "") -> None:
        super().__init__(f"{message}. {mend}" if mend else message)
        self.message = message
        self.mend = mend


class SourceError(GpucastError):
    """A source did not give usable data.

    Args:
        source: URL or path of the source.
    """

    def __init__(self, source: str, message: str, *, mend: str = "") -> None:
        super().__init__(f"{source}: {message}", mend=mend)
        self.source = source


class SourceUnreachable(SourceError):
    """The source gave no answer at all."""


class BadReply(SourceError):
    """The source answered with something that cannot be used.

    Args:
        error_type: the source's own word for the failure, such as Prometheus' ``errorType``.
        retry_smaller: True when a smaller range may succeed where the same one cannot.
    """

    def __init__(
        self, source: str, message: str, *, mend: str = "", error_type: str = "", retry_smaller: bool = False
    ) -> None:
        super().__init__(source, message, mend=mend)
        self.error_type = error_type
        self.retry_smaller = retry_smaller


class StaleSource(SourceError):
    """The source answers, but its data stopped moving."""


class DataError(GpucastError):
    """Data inside the service breaks a law."""


class SchemaError(DataError):
    """Wrong columns, shapes or types."""


class StoreError(DataError):
    """The sample store cannot be opened, read or written."""


class StoreFull(StoreError):
    """The disk of the sample store has no room; reads go on."""


class LeakError(DataError):
    """Something would read later than its cutoff."""


class ModelError(GpucastError):
    """A model cannot do what was asked."""


class NotFitted(ModelError):
    """``predict`` before ``fit``."""


class IncompatibleModel(ModelError):
    """A saved model of another version, shape or digest."""


class AdviceError(GpucastError):
    """An advice cannot be made, planned or graded."""


class BackendError(GpucastError):
    """A scheduler refused or could not be reached."""


class BackendRefused(BackendError):
    """The scheduler understood and said no."""


class BackendConflict(BackendError):
    """The world changed since the snapshot the plan was made from."""


class BackendUnreachable(BackendError):
    """The scheduler gave no answer."""


class ConfigError(GpucastError):
    """A flag, file or key that the user can mend."""
