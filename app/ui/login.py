"""The page's login: checks a key's name and the key, and sets a session cookie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from markupsafe import Markup

from app.ui import theme
from app.ui.cards import markup
from app.web.callers import Caller
from app.web.dependencies import AppState

WRONG = "This key name and key do not belong together, or the key was revoked."
PLACES = ("/login", "/login/")


def form() -> HTMLResponse:
    """Return the login form, shown instead of the page to users who are not logged in."""
    style = Markup((theme.STATIC / "login.css").read_text(encoding="utf-8"))
    return HTMLResponse(
        markup.render("login.html", title=theme.TITLE, style=style),
        headers={"Cache-Control": "no-store"},
    )


def router(state: AppState) -> APIRouter:
    """Return the routes for login and logout, which replace Gradio's.

    Browsers send Gradio's cookies with requests from other sites; this cookie is same-site only.
    """
    routes = APIRouter(include_in_schema=False)
    for place in PLACES:
        routes.add_api_route(place, _login(state), methods=["POST"])
    routes.add_api_route("/logout", _logout(state), methods=["POST"])
    return routes


def _logout(state: AppState) -> Callable[[Request], Response]:
    def logout(request: Request) -> Response:
        # Not GET, as in Gradio: an image tag on another site could log a user out.
        state.logins.pop(request.cookies.get(state.logins.cookie, ""), None)
        answer = JSONResponse({"success": True})
        answer.delete_cookie(state.logins.cookie)
        return answer

    return logout


def _login(state: AppState) -> Callable[..., Awaitable[Response]]:
    async def login(
        request: Request,
        username: Annotated[str, Form(max_length=200)],
        password: Annotated[str, Form(max_length=1000)],
    ) -> Response:
        caller: Caller = request.scope["caller"]
        user = state.service.keys.login(username.strip(), password)
        if user is None:
            # Count only failed logins, so that guessing never locks out a user with a valid key.
            state.failures.check(caller.address)
            return JSONResponse({"detail": WRONG}, 400)
        answer = JSONResponse({"success": True})
        answer.set_cookie(
            state.logins.cookie,
            state.logins.open(user),
            httponly=True,
            samesite="strict",
            secure=state.settings.behind_proxy or request.url.scheme == "https",
        )
        return answer

    return login
