"""Why a call to an endpoint failed, in the words of tcpxctl."""


class Error(Exception):
    """Any of the errors below."""


class UsageError(Error, ValueError):
    """An argument is wrong; nothing was started."""


class PluginError(Error):
    """The plugin cannot be loaded, or refuses a call."""


class RefusedError(Error, PermissionError):
    """The peer refused an operation; nothing was moved."""


class ConnectionLost(Error, ConnectionError):
    """No connection could be made, or it is lost."""


class TimedOut(Error, TimeoutError):
    """A wait ended before what it waited for."""


class ClosedError(Error):
    """The endpoint is closed."""


class LimitError(Error):
    """A bound of the endpoint is reached."""
