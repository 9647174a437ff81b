# SPDX-License-Identifier: GPL-2.0-only
"""Programs that tests take from npm; a test that cannot get them is skipped (exit 78)."""
import glob, shutil, subprocess, sys

SPEEDSCOPE = 'speedscope@1.25.0'


def skip(why):
    print(why)
    sys.exit(78)


def install(scratch, package, wanted):
    """The path of what the package has at `wanted`, a pattern."""
    if not shutil.which('npm') or not shutil.which('node'):
        skip('npm and node are needed to run %s' % package)
    p = subprocess.run(['npm', 'install', '--prefix', scratch, '--no-audit', '--no-fund', '--ignore-scripts', package],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    found = glob.glob('%s/node_modules/%s' % (scratch, wanted))
    if p.returncode or not found:
        skip('npm cannot fetch %s: %s' % (package, p.stdout.decode().strip().split('\n')[-1]))
    return found[0]


def speedscope(scratch):
    """The path of speedscope's program for browsers."""
    return install(scratch, SPEEDSCOPE, 'speedscope/dist/release/speedscope-*.js')
