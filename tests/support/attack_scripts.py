"""Scripts that attack the machine they run on; a sandbox must hold them."""

from __future__ import annotations

METADATA_PROBE = """
import socket
for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200"):
    try:
        socket.create_connection((address, 80), 3).close()
        print(address, "open")
    except OSError as error:
        print(address, type(error).__name__, error.errno)
"""
MANY_PROCESSES = """
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except OSError as error:
    print(error.errno, 32 <= count <= 80)
"""
MEMORY_BOMBS = {
    "one process": "hoard = []\nwhile True: hoard.append(bytearray(8 << 20))",
    "many children": """
import os, time
for _ in range(10):
    if os.fork() == 0:
        hoard = bytearray(os.urandom(1) * (50 << 20)); time.sleep(1000)
os.wait()
""",
    "children that want to die last": """
import os, time
open("/proc/self/oom_score_adj", "w").write("0")
for _ in range(30):
    if os.fork() == 0:
        hoard = bytearray(os.urandom(1) * (12 << 20)); time.sleep(1000)
os.wait()
""",
    "a file without a name": """
import os
handle = os.memfd_create("bomb")
while True: os.write(handle, bytes(1 << 20))
""",
    "zip bomb": """
import zlib
squeeze = zlib.compressobj(1)
bomb = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(320)) + squeeze.flush()
print(len(bomb) < 2 << 20, flush=True)
zlib.decompress(bomb)
""",
}
