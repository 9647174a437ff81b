// SPDX-License-Identifier: GPL-2.0-only
// An HTTP server, and what loads it. `serve`: prints its port, ends at /quit. `load PORT REQUESTS`.
'use strict';
const http = require('http');
function escape(text) { return text.replace(/[&<>]/g, (c) => '&#' + c.charCodeAt(0) + ';'); }
function row(i, path) { return `<tr><td>${i}</td><td>${escape(path + '<' + i + '>')}</td></tr>`; }
function render(path) {
  const rows = [];
  for (let i = 0; i < 120; i++) rows.push(row(i, path));
  return '<table>' + rows.sort().join('') + '</table>';
}
function handle(request, response) {
  if (request.url === '/quit') { response.end('bye', () => process.exit(0)); return; }
  response.setHeader('Content-Type', 'text/html');
  response.end(render(request.url));
}
function serve() {
  const server = http.createServer(handle);
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}
function load(port, requests) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  let busy = 0, done = 0;
  function get(path, then) {
    http.get({ agent, port, path, host: '127.0.0.1' }, (r) => { r.resume(); r.on('end', then); })
      .on('error', () => process.exit(path === '/quit' ? 0 : 1));
  }
  function next() {
    done++;
    if (done < requests) { get('/page' + done, next); return; }
    if (--busy === 0) { console.log(done); get('/quit', () => process.exit(0)); }
  }
  for (; busy < 8; busy++) get('/first', next);
}
if (process.argv[2] === 'serve') serve();
else load(Number(process.argv[3]), Number(process.argv[4]));
