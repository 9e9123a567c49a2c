"""Traces by OpenTelemetry: run → stage → model calls, executions and requests to GitHub.

The id of a trace is the id of its run, so all attempts at a run, by any worker, are one trace.
OpenTelemetry is imported only where `OTEL_EXPORTER_OTLP_ENDPOINT` is set; its exporter reads its
other standard variables (headers, certificate, timeout, resource attributes) itself.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.settings import LogSettings, SettingsError
from sandbox.observation import Event, Kind, add_observer, remove_observer

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


@dataclass
class _Trace:
    """The open spans of one attempt, shared by its tasks."""

    run: Span
    stage: Span | None = None


_run_id: ContextVar[int] = ContextVar("trace_of_run")
_trace: ContextVar[_Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(settings: LogSettings) -> Generator[None]:
    """Send the traces of the block's runs, if an endpoint is set.

    Raises:
        SettingsError: the packages of the extra `traces` are missing.
    """
    if not settings.otlp_endpoint:
        yield
        return
    try:
        provider = _build_provider(settings)
    except ImportError:
        raise SettingsError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed. Install"
            " capuchin-bot[traces], or delete the variable."
        ) from None
    add_observer("traces", TraceObserver(provider.get_tracer("capuchin")).observe)
    try:
        yield
    finally:
        remove_observer("traces")
        provider.force_flush(3_000)
        provider.shutdown()


def _build_provider(settings: LogSettings) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class RunIds(RandomIdGenerator):
        """Gives a trace the id of its run."""

        def generate_trace_id(self) -> int:
            return _run_id.get(0) or super().generate_trace_id()

    resource = Resource({SERVICE_NAME: "capuchin-worker"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(id_generator=RunIds(), resource=resource, shutdown_on_exit=False)
    endpoint = f"{settings.otlp_endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


class TraceObserver:
    """Makes a span for each event within a run."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def observe(self, event: Event) -> Generator[None]:
        trace = _trace.get()
        if event.kind is Kind.RUN:
            with self._observe_run(event):
                yield
        elif trace is None:  # outside a run, such as the sweep's requests to GitHub
            yield
        else:
            span = self._start(event, trace.stage or trace.run)
            if event.kind is Kind.STAGE:
                trace.stage = span
            try:
                yield
            finally:
                if trace.stage is span:
                    trace.stage = None
                _end(span, event)

    @contextmanager
    def _observe_run(self, event: Event) -> Generator[None]:
        token = _run_id.set(int(str(event.facts["run"]), 16))
        span = self._start(event, None)
        inner = _trace.set(_Trace(span))
        try:
            yield
        finally:
            _trace.reset(inner)
            _run_id.reset(token)
            _end(span, event)

    def _start(self, event: Event, parent: Span | None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        context = set_span_in_context(parent, Context()) if parent else Context()
        facts = event.facts
        detail = facts.get("stage") or facts.get("call") or facts.get("method")
        return self._tracer.start_span(f"{event.kind} {detail or ''}".rstrip(), context)


def _end(span: Span, event: Event) -> None:
    from opentelemetry.trace import Status, StatusCode

    for name, value in event.facts.items():
        span.set_attribute(f"capuchin.{name}", value)
    if event.error:
        span.set_attribute("error.type", event.error)
        span.set_status(Status(StatusCode.ERROR, event.error))
    span.end()
