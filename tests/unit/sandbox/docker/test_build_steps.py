"""What a build is given."""

import shutil
import subprocess
from pathlib import Path

import pytest
import trustme

from sandbox.docker.build_network import proxy_environment
from sandbox.docker.build_steps import make_trust_store


@pytest.mark.skipif(not shutil.which("keytool"), reason="no JVM here")
def test_a_jvm_reads_every_authority_of_the_bundle(tmp_path: Path) -> None:
    bundle = b"# Ours\n" + b"".join(trustme.CA().cert_pem.bytes() for _ in range(3))
    (tmp_path / "ca.jks").write_bytes(make_trust_store(bundle))
    words = ["keytool", "-list", "-keystore", tmp_path / "ca.jks", "-storepass", "changeit"]
    assert subprocess.check_output(words, text=True).count("trustedCertEntry") == 3


def test_a_jvm_behind_the_proxy_keeps_its_authorities() -> None:
    told = proxy_environment("http://172.17.0.2:3128", "-Dtrust=it")["JAVA_TOOL_OPTIONS"]
    assert told.startswith("-Dtrust=it -Dhttp.proxyHost=172.17.0.2 ")
