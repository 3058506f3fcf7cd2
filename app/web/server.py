"""The server: the API and the page at "/" in one process."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from app.auth import KeyStore
from app.settings import BadSetting, Settings
from app.stores import Stores

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.service import FaceService


def serve(settings: Settings, *, page: bool = True) -> None:
    """Serve until interrupted.

    Args:
        page: Serve the page too, not just the API.

    Raises:
        BadSetting: The address is reachable from other machines and there are no keys, or the
            port is in use.
    """
    check_access(settings)
    listener = _listen(settings)
    set_up_logging()
    import uvicorn

    from app.context import how_to_calibrate
    from app.service import FaceService
    from app.web.memory import bound_memory
    from app.web.protocol import CONNECTIONS_PER_ADDRESS, TimeoutProtocol

    stop = threading.Event()
    bound_memory(stop)
    service = FaceService.open(settings)
    if service.context.calibration is None:
        print(
            "This model is not calibrated: nothing can be judged yet. Measure it on photos of "
            f"people it has not seen: {how_to_calibrate(settings.bundle)}",
            flush=True,
        )
    TimeoutProtocol.per_address = None if settings.behind_proxy else CONNECTIONS_PER_ADDRESS
    try:
        config = uvicorn.Config(
            build(service, page=page),
            http=TimeoutProtocol,
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=10,
        )
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        port = listener.getsockname()[1]
        listener.listen(2048)
        print(f"Ready at http://{shown}:{port} (API at /docs; Ctrl-C stops)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        stop.set()
        service.close()


def build(service: FaceService, *, page: bool = True) -> FastAPI:
    from app.web import api

    app = api.create(service)
    if page:
        from app.ui.page import mount

        mount(app, service, service.settings)
    return app


def check_access(settings: Settings) -> None:
    """Refuse to serve other machines without keys."""
    if settings.private:
        return
    with closing(Stores.open(settings)) as stores:
        keys = KeyStore(stores.keys).keys()
    if not keys:
        raise BadSetting(
            f"{settings.host} can be reached from other machines, through a proxy or directly, and "
            "there is no key yet. Make one first: python -m app keys add NAME --scope admin"
        )


def set_up_logging() -> None:
    """Log to standard error; every line carries the id of the request it belongs to."""
    from app.web.errors import request_id

    def name_request(record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(name_request)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s [%(request_id)s] %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listener.close()
        raise BadSetting(
            f"{settings.host}:{settings.port} cannot be served on ({error.strerror}). "
            "Choose another with --host and --port."
        ) from error
    return listener
