# SPDX-License-Identifier: GPL-2.0-only
"""Headless Chromium for tests, driven through its debugging pipe: no driver program is needed."""
import base64, itertools, json, os, shutil, signal, subprocess, sys, tempfile, time


def find():
    """The program's path; without one the test is skipped."""
    for name in ('chromium', 'chromium-browser', 'google-chrome'):
        if shutil.which(name):
            return shutil.which(name)
    print('there is no Chromium here')
    sys.exit(78)


KEYS = {'Enter': 13, 'Escape': 27, 'Backspace': 8, 'Home': 36, 'ArrowLeft': 37, 'ArrowUp': 38, 'ArrowRight': 39, 'ArrowDown': 40}


class Page:
    """A page in a browser of its own. `errors`: exceptions, messages of errors and requests for other files."""

    def __init__(self, program, scratch, width=1220, height=800, dark=False):
        self.ids, self.errors, self.session = itertools.count(1), [], None
        to_browser, self.out = os.pipe()
        self.input, from_browser = os.pipe()
        self.buffer = b''
        # The browser's processes may still write when the first one has ended.
        self.profile = tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True)
        # The browser reads descriptor 3 and writes 4.
        self.process = subprocess.Popen(
            ['bash', '-c', 'exec "$@" 3<&%d 4>&%d' % (to_browser, from_browser), 'chromium', program, '--headless=new', '--no-sandbox',
             '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-pipe', '--user-data-dir=' + self.profile.name],
            pass_fds=(to_browser, from_browser), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(domain + '.enable')
        self.size(width, height)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.session = None
        try:
            self.call('Browser.close')
            self.process.wait(timeout=20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            pass
        try: # what is left of its processes
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.input)
        os.close(self.out)
        self.profile.cleanup()

    def message(self):
        while b'\0' not in self.buffer:
            piece = os.read(self.input, 1 << 20)
            if not piece:
                raise RuntimeError('the browser has ended')
            self.buffer += piece
        one, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(one)

    def note(self, m):
        p = m.get('params', {})
        if m.get('method') == 'Runtime.exceptionThrown':
            self.errors.append(json.dumps(p['exceptionDetails'].get('exception', p)))
        elif m.get('method') == 'Log.entryAdded' and p['entry']['level'] == 'error':
            self.errors.append(p['entry']['text'])
        elif m.get('method') == 'Network.requestWillBeSent' and not p['request']['url'].startswith(('file:', 'data:', 'about:')):
            self.errors.append('asks for ' + p['request']['url'])

    def call(self, method, **params):
        number = next(self.ids)
        m = {'id': number, 'method': method, 'params': params}
        if self.session:
            m['sessionId'] = self.session
        os.write(self.out, json.dumps(m).encode() + b'\0')
        while True:
            m = self.message()
            if m.get('id') == number:
                if 'error' in m:
                    raise RuntimeError('%s: %s' % (method, m['error']))
                return m['result']
            self.note(m)

    def size(self, width, height):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path, hash=''):
        self.call('Page.navigate', url='about:blank')
        self.call('Page.navigate', url='file://' + path + hash)
        self.until('location.protocol == "file:" && document.readyState == "complete"') # the blank page is complete, too

    def run(self, expression):
        """The value of an expression of JavaScript."""
        r = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in r:
            raise RuntimeError('%s: %s' % (expression, r['exceptionDetails']['exception'].get('description')))
        return r['result'].get('value')

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise RuntimeError('never true: ' + expression)
            time.sleep(0.02)

    def frame(self):
        """Wait until what was asked for is drawn."""
        self.run('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))')

    def mouse(self, kind, x, y, button='none'):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button=button, buttons=1 if button == 'left' else 0, clickCount=1)

    def click(self, x, y):
        self.mouse('mouseMoved', x, y)
        self.mouse('mousePressed', x, y, 'left')
        self.mouse('mouseReleased', x, y, 'left')
        self.frame()

    def drag(self, x, y, to):
        self.mouse('mouseMoved', x, y)
        self.mouse('mousePressed', x, y, 'left')
        self.mouse('mouseMoved', (x + to) / 2, y, 'left')
        self.mouse('mouseMoved', to, y, 'left')
        self.mouse('mouseReleased', to, y, 'left')
        self.frame()

    def press(self, key):
        known = KEYS.get(key, 0)
        text = {} if known and key != 'Enter' else {'text': '\r' if key == 'Enter' else key}
        self.call('Input.dispatchKeyEvent', type='keyDown', key=key, windowsVirtualKeyCode=known, **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key, windowsVirtualKeyCode=known)
        self.frame()

    def type(self, text):
        for c in text:
            self.press(c)

    def shoot(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.call('Page.captureScreenshot')['data']))
