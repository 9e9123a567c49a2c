"""Scripts that attack the machine they run on; a sandbox must hold them."""

ESCAPE_FROM_A_BUILD = """
import base64, json, os, socket, struct, sys, urllib.parse, urllib.request
port = int(sys.argv[1])
gateway = sys.argv[2]
here = ("127.0.0.1", 3142)
hosts = (gateway, "169.254.169.254", "168.63.129.16", "10.0.0.1", "192.168.0.1", "::1",
         "::ffff:" + gateway, "fd00:ec2::254", "localhost", "host.docker.internal")

def tell(way, host, answer):
    print(way, host, answer, flush=True)

def connect(host):
    socket.create_connection((host, port), 3).close()
    return "OPEN"

def tunnel(host):
    with socket.create_connection(here, 120) as link:
        shown = "[%s]" % host if ":" in host else host
        link.sendall(("CONNECT %s:%d HTTP/1.1\\r\\n\\r\\n" % (shown, port)).encode())
        answer = link.recv(200).split(b" ")[1].decode()
        return "OPEN" if answer == "200" else answer

def through_the_cache(host):
    shown = "[%s]" % host if ":" in host else host
    token = json.dumps(["http://%s:%d/" % (shown, port), ""]).encode()
    path = base64.urlsafe_b64encode(token).decode().rstrip("=")
    with socket.create_connection(("127.0.0.1", 3141), 120) as link:
        link.sendall(("GET /files/%s/x HTTP/1.0\\r\\n\\r\\n" % path).encode())
        answer = link.recv(200).split(b" ")[1].decode()
        return "OPEN" if answer == "200" else answer

def resolve(host):
    return "OPEN " + socket.getaddrinfo(host, 80)[0][4][0]

def send_to_a_resolver(host):
    query = struct.pack(">6H", 1, 256, 1, 0, 0, 0) + b"\\4pypi\\3org\\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(3)
        link.sendto(query, (host, 53))
        return "OPEN" if link.recv(500) else ""

def raw_frame(host):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        names = [name for _, name in socket.if_nameindex() if name != "lo"]
        link.bind((names[0], 0)) if names else None
        return "OPEN" if names else "no interface"

def attempt(way, host):
    try:
        tell(way.__name__, host, way(host))
    except (OSError, IndexError) as error:
        tell(way.__name__, host, type(error).__name__)

for host in hosts:
    for way in (connect, tunnel, through_the_cache):
        attempt(way, host)
attempt(resolve, "pypi.org")
for line in open("/etc/resolv.conf"):
    if line.startswith("nameserver"):
        attempt(send_to_a_resolver, line.split()[1])
attempt(raw_frame, "-")
"""
"""All that code of a repository tries while it is installed; prints OPEN where it gets through."""
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
    "files count": """
open('/tmp/a', 'wb').write(bytes(60 << 20)); open('a', 'wb').write(bytes(60 << 20))
hoard = bytearray(200 << 20)
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
