"""`capuchin demo [--keep] [--port N]`: the main job, from the signed webhook to the pull request."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bot.demo import told
from bot.demo.package import LICENSE, REPORTED, DemoFailed, files, source_release
from bot.demo.stage import MAINTAINER, REPORTER, Stage, standing
from bot.redis_client import open_redis
from bot.runs import Runs
from bot.settings import Settings, SettingsError
from bot.store import RedisStore
from bot.types import Run, RunStatus
from importlib.resources import files as resources
