"""Whether an installation may be used just now."""

from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.state import AppInstallation
from capuchin_demo.hub.tokens import Token
from tests.support.github.hub_state import GitHubState


def check_installation(state: GitHubState, token: Token, *, writes: bool) -> None:
    """Refuse what no token of its installation may do just now.

    Raises:
        Refusal: suspended, kept out by a rule, or over the limit of content (403).
    """
    one = token.installation
    if one is None:
        return
    refuse_unavailable(state, one)
    limit = state.content_limits.get(one.id) if writes else None
    if limit is None:
        return
    limit.written += 1
    if limit.written > limit.most:
        limit.refused += 1
        raise Refusal(
            403,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try "
            "again.",
            headers={"retry-after": str(limit.seconds)},
        )


def refuse_unavailable(state: GitHubState, one: AppInstallation) -> None:
    """Refuse an installation that is suspended or kept out by a rule.

    Raises:
        Refusal: it is (403).
    """
    if one.suspended_at is not None:
        raise Refusal(403, "This installation has been suspended")
    if one.id in state.blocked:
        raise Refusal(403, state.blocked[one.id])
