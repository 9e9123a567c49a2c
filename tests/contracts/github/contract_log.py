"""Checks every exchange and webhook of a test against the contracts.

log = ContractLog()
hub.listen(log)
...
log.check(hub.deliveries)
assert log.problems == []
"""

from __future__ import annotations

from collections.abc import Iterable

from capuchin_demo.hub.state import Exchange
from capuchin_demo.hub.webhooks import Delivery
from tests.contracts.github.contract import rest_contract, webhook_contract


class ContractLog:
    """`problems` are sentences; `operations` the ids of all successful operations.

    `bad_requests_too` also checks requests that the hub rejected (4xx): a bot under test should
    never send invalid ones, but a test of rejections does.
    """

    def __init__(self, *, bad_requests_too: bool = False) -> None:
        self.problems: list[str] = []
        self.operations: set[str] = set()
        self._all = bad_requests_too

    def __call__(self, exchange: Exchange) -> None:
        """Check an exchange, both ways. The document does not cover git's protocol."""
        if exchange.api != "rest":
            return
        contract, path = rest_contract(), exchange.path
        name = f"{exchange.method} {exchange.path} → {exchange.status}"
        if self._all or exchange.status < 400:
            asked = contract.request(exchange.method, path, exchange.query, exchange.body)
            self.problems += [f"{name}: request: {problem}" for problem in asked]
        kind = exchange.response_headers.get("content-type", "")
        answered = contract.response(
            exchange.method, path, exchange.status, kind, exchange.response
        )
        self.problems += [f"{name}: response: {problem}" for problem in answered]
        operation = contract.operation(exchange.method, path)
        if operation is not None and exchange.status < 400:
            self.operations.add(operation)

    def check(self, deliveries: Iterable[Delivery]) -> None:
        """Check the payloads of webhooks."""
        for delivery in deliveries:
            found = webhook_contract().problems(delivery.event, delivery.payload)
            name = f"webhook {delivery.event}.{delivery.action}"
            self.problems += [f"{name}: {problem}" for problem in found]
