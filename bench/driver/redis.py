# SPDX-License-Identifier: Apache-2.0
"""redis-server for measurements, where only Debian's redis-tools is installed."""
import atexit
import os
import shutil
import tempfile


def put_on_path():
    """The tools have the server as well, under the name of its checker: it is the name that it goes by.

    So no daemon is installed, and started, for a measurement.
    """
    checker = shutil.which("redis-check-rdb")
    if shutil.which("redis-server") or not checker:
        return
    folder = tempfile.mkdtemp(prefix="tidemark-redis-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.symlink(checker, os.path.join(folder, "redis-server"))
    os.environ["PATH"] += os.pathsep + folder
