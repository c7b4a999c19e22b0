"""Messages of the language server protocol: each request is answered, malformed ones and those out of order too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = "dict[str, Any] | list[Any] | str | float | None"


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that cannot be carried out; ``id`` is None where it has none that an answer could repeat."""

    id: int | str | None
    error: JsonRpcException


class AnsweringProtocol(LanguageServerProtocol):
    """The protocol of pygls, which logs some requests that it cannot read and leaves them without an answer.

    The codes of errors are those of JSON-RPC 2.0 and of the language server protocol 3.17 (section "Base Protocol").
    """

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return a message as its type; a request whose type it does not have, as `RefusedRequest`.

        Objects inside of a message are passed too, and returned as they are.
        """
        if "jsonrpc" not in data:
            return data
        is_request = "id" in data and "method" in data
        if is_request and (refusal := self._refusal(data)) is not None:
            return RefusedRequest(_id_of(data), refusal)
        try:
            return super().structure_message({"params": None, **data} if is_request else data)
        except JsonRpcException as error:
            if not is_request:
                raise
            refusal = JsonRpcInvalidParams(f"parameters of `{data['method']}` are missing or have other types")
            refusal.__cause__ = error
            return RefusedRequest(_id_of(data), refusal)

    def handle_message(self, message: Any) -> None:
        """Carry out a message, or answer why not."""
        if message is None or isinstance(message, (dict, list, str, int, float)):
            message = _untyped(cast("JsonValue", message))
        if isinstance(message, RefusedRequest):
            self.refuse(message)
        else:
            super().handle_message(message)

    def refuse(self, request: RefusedRequest) -> None:
        """Answer a request with its error."""
        # As a dictionary: the types of the protocol leave out an id of None, which JSON-RPC wants as null.
        error = {"code": request.error.code, "message": request.error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": request.id, "error": error})

    def refuse_text(self, error: Exception) -> None:
        """Answer a message that is not JSON."""
        self.refuse(RefusedRequest(None, JsonRpcParseError(f"the message is not JSON: {error}")))

    def _refusal(self, request: Mapping[str, Any]) -> JsonRpcException | None:
        """Return why a request is out of order; None if it is not."""
        method = request["method"]
        if request["jsonrpc"] != self.VERSION:
            return JsonRpcInvalidRequest(f"expected jsonrpc {self.VERSION!r}, found {request['jsonrpc']!r}")
        if not isinstance(method, str) or not _is_id(request["id"]):
            return JsonRpcInvalidRequest("expected a method that is a string, and an id that is an integer or a string")
        if self._shutdown:
            return JsonRpcInvalidRequest("the server was shut down: only `exit` can follow")
        is_initialized = self._workspace is not None
        if method == types.INITIALIZE:
            return JsonRpcInvalidRequest("`initialize` can be sent only once") if is_initialized else None
        return None if is_initialized else JsonRpcServerNotInitialized("`initialize` has to be the first request")


def _untyped(message: JsonValue) -> RefusedRequest:
    """Return the refusal of JSON that is not a message of the protocol."""
    if isinstance(message, list):
        return RefusedRequest(None, JsonRpcInvalidRequest("the protocol has no batches: expected an object"))
    if not isinstance(message, dict):
        return RefusedRequest(None, JsonRpcInvalidRequest("a message is an object"))
    return RefusedRequest(_id_of(message), JsonRpcInvalidRequest("expected `jsonrpc`: the version of JSON-RPC"))


def _id_of(message: Mapping[str, Any]) -> int | str | None:
    request_id = message.get("id")
    return request_id if _is_id(request_id) else None


def _is_id(value: object) -> TypeGuard[int | str]:
    # Truth values are integers of Python, and none of JSON.
    return isinstance(value, (int, str)) and not isinstance(value, bool)
