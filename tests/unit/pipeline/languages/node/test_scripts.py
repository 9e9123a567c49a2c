"""The runners behind what people type, taken from the scripts of `package.json`."""

import json
import time

import pytest

from pipeline.languages.node.scripts import Packages

JUNIT = "--reporter=default --reporter=junit --outputFile=capuchin-junit.xml"
JEST = "--json --outputFile=capuchin-jest.json"
MOCHA = {
    "test": "run-s lint test-node test-browser",
    "lint": "run-p lint:*",
    "lint:code": "eslint test/mocha",
    "test-node": "run-s test-node:*",
    "test-node:unit": 'node bin/mocha.js "test/**/*.spec.js"',
    "test-node:unit:watch": "mocha --watch",
    "test-browser": "karma start",
}


def parts_of(
    scripts: dict[str, str], line: str = "npm test", folder: str = "", **more: str
) -> list[str]:
    """Each start with its folder; `more` are texts of further `package.json`, by folder."""
    texts = {"package.json": json.dumps({"scripts": scripts, "workspaces": ["packages/*"]})}
    texts |= {f"{name}/package.json".replace("__", "/"): text for name, text in more.items()}
    found = Packages(tuple(texts), texts).list_parts([(folder, line)])
    return [f"{one.folder}: {' '.join(one.words)}".lstrip(": ") for one in found]


@pytest.mark.parametrize(
    ("scripts", "found"),
    [
        ({"test": "jest"}, [f"npm test -- {JEST}"]),
        ({"test": "vitest run"}, [f"npm test -- {JUNIT}"]),
        ({"test": "mocha --require x test/ | tee log"},
         ["npx --no-install mocha --require x test/ --reporter tap"]),
        ({"test": "xo && tsc --noEmit && NODE_OPTIONS='--import=tsx/esm' ava"},
         ["sh -c NODE_OPTIONS=--import=tsx/esm npx --no-install ava --tap"]),
        (MOCHA, ["npm run test-node:unit -- --reporter tap"]),
        ({"test": "npm run lint && nyc --reporter=lcov mocha test", "lint": "eslint ."},
         ["npx --no-install mocha test --reporter tap"]),
        ({"test": "npm run build && mocha dist", "build": "tsc"},
         ["sh -c npm run build && npx --no-install mocha dist --reporter tap"]),
        ({"test": "npm run -s go -- test/a && npm run go -- 'test/b/**'", "go": "c8 mocha -x"},
         ["npm run go -- test/a --reporter tap", "npm run go -- test/b/** --reporter tap"]),
        ({"test": "cross-env A=1 jest --ci"}, [f"npm test -- {JEST}"]),
        ({"test": "TZ=Asia/Tokyo npm run zone && npm run zone", "zone": "ava zone.js"},
         ["sh -c TZ=Asia/Tokyo npm run zone -- --tap", "npm run zone -- --tap"]),
        ({"test": "node --test"}, ["npm test"]),
        ({"test": "tsc --noEmit && c8 node --test-reporter=x --test 'packages/*/*.test.js'"},
         ["node --test-reporter=x --test packages/*/*.test.js"]),
        ({"test": "cd web && npm run build && npm test && npm --prefix ../api test"},
         ["web: sh -c npm run build && npx --no-install jest " + JEST, "api: npm test"]),
        ({"test": "CI=true react-scripts test"}, [f"npm test -- {JEST}"]),
        ({"test": "grunt test && dtslint"}, []),
        ({"test": "npm test"}, []),
        ({"test": "npm test -- x"}, []),
        ({"test": "echo 'x"}, []),
    ],
)  # fmt: skip
def test_a_script_is_taken_apart_and_its_runner_reports_by_name(
    scripts: dict[str, str], found: list[str]
) -> None:
    web, api = (json.dumps({"scripts": {"test": run}}) for run in ("jest && true", "node --test"))
    assert parts_of(scripts, web=web, api=api) == found


@pytest.mark.parametrize(
    "line", ["npm test --workspaces", "npm test -ws", "turbo run test", "lerna run test",
             "pnpm -r test", "yarn workspaces foreach -A run test"],
)  # fmt: skip
def test_what_starts_the_tests_of_all_packages_starts_each_of_them(line: str) -> None:
    one, other = (json.dumps({"scripts": {"test": run}}) for run in ("vitest run", "jest"))
    members = {"packages__a": one, "packages__b": other, "other__c": other}
    found = parts_of({"test": line}, **members)
    assert found == [f"packages/a: npm test -- {JUNIT}", f"packages/b: npm test -- {JEST}"]


def test_a_package_in_a_folder_has_scripts_of_its_own() -> None:
    web = '{"scripts": {"test:ci": "jest --ci"}}'
    assert parts_of({}, "npm run test:ci", "web", web=web) == [f"web: npm run test:ci -- {JEST}"]


@pytest.mark.parametrize(
    ("lock", "started"),
    [
        ("pnpm-lock.yaml", "pnpm test --reporter tap"),
        ("yarn.lock", "yarn test --reporter tap"),
        ("bun.lock", "bun run test --reporter tap"),
    ],
)
def test_the_package_manager_of_the_repository_starts_it(lock: str, started: str) -> None:
    texts = {"package.json": '{"scripts": {"test": "mocha"}}', lock: ""}
    (part,) = Packages(tuple(texts), texts).list_parts([("", "npm test")])
    assert " ".join(part.words) == started


def test_scripts_that_start_one_another_end() -> None:
    scripts = {f"t{n}": " && ".join(f"npm run t{m}" for m in range(200)) for n in range(200)}
    began = time.thread_time()
    assert parts_of({"test": "npm run t0", **scripts}) == []
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("line", "files", "takes"),
    [
        ("mocha", [], True),
        ("nyc ava", [], True),
        ("jest --ci", [], True),
        ("mocha test/", [], False),  # what a path is added to
        ("mocha", [".mocharc.json"], False),
        ("tape", [], False),
    ],
)
def test_a_runner_is_given_files_where_it_runs_no_others(
    line: str, files: list[str], takes: bool
) -> None:
    texts = {"package.json": json.dumps({"scripts": {"test": line}}), **dict.fromkeys(files, "")}
    (part,) = Packages(tuple(texts), texts).list_parts([("", "npm test")])
    assert part.runner.takes_paths is takes
