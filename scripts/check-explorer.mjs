#!/usr/bin/env node
// Goes through every view of the explorer in Chromium, by keyboard, at 1280 and 390 pixels, light
// and dark, and tells every console message, policy violation, serious finding of axe-core, and view
// that is wider than the screen.
//
//     scripts/check-explorer.mjs [--agent FILE] [--shots DIR] [--home DIR --base N] [--at URL]
//
// Makes a home of its own with the sample, and a base of hostile documents and one node with 100,000
// neighbours. With --home and --base a base that is installed there is looked at as well. --at looks
// at a server that runs already, and only at --base where that is given. Needs Chromium (Debian's
// `chromium`, or CHROMIUM) and `npm ci` in web/.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(join(root, 'web/package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const { values: given } = parseArgs({
  options: {
    agent: { type: 'string', default: join(root, 'target/release/agent') },
    shots: { type: 'string' },
    home: { type: 'string' },
    base: { type: 'string' },
    at: { type: 'string' },
    parts: { type: 'string', default: 'views,keyboard,hostile,live' },
  },
});

/** Neighbours of the node with most of them. */
const HUB = 100_000;
/** Milliseconds until such a node has to be shown. */
const HUB_MS = 1000;
const WIDTHS = [1280, 390];
const SCHEMES = ['light', 'dark'];
/** What a document may hold; all of it has to stay text. */
const HOSTILE = [
  '<script>window.ran = 1</script>',
  '<img src=x onerror="window.ran = 2">',
  '"><svg onload="window.ran = 3">',
  'javascript:window.ran=4',
  '${window.ran = 5}',
  '<style>body { display: none }</style>',
];

const world = mkdtempSync(join(tmpdir(), 'explorer-'));
const servers = [];
let problems = 0;

function wrong(what) {
  problems += 1;
  console.log(`WRONG ${what}`);
}

function agent(...args) {
  const env = { ...process.env, AGENT_HOME: join(world, 'home') };
  const { status, stderr } = spawnSync(given.agent, args, { env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`agent ${args.join(' ')}: ${stderr}`);
}

/** A base of documents that would run if they were more than text, and of one very large node. */
function makeHostile() {
  const dir = join(world, 'hostile');
  mkdirSync(dir);
  const nodes = [{ id: 0, type: 'hub', name: 'The hub', details: { about: 'Everything is next to it.' } }];
  const edges = ['src_id\trelation\tdst_id'];
  for (let id = 1; id <= HUB; id++) {
    const bad = HOSTILE[id % HOSTILE.length];
    const name = id <= HOSTILE.length ? bad : `Spoke ${id}`;
    nodes.push({ id, type: 'spoke', name, details: { about: `A spoke of the hub. ${bad}`, note: bad } });
    edges.push(`${id}\tnext_to\t0`);
  }
  writeFileSync(join(dir, 'nodes.jsonl'), nodes.map((node) => JSON.stringify(node)).join('\n'));
  writeFileSync(join(dir, 'edges.tsv'), `${edges.join('\n')}\n`);
  agent('data', 'import', '--name', 'hostile', '--from', dir);
  agent('index', 'hostile');
}

/** Starts a server; its address comes with the first line that names one. */
function serve(home, ...args) {
  const env = { ...process.env, AGENT_HOME: home };
  const child = spawn(given.agent, ['serve', '--listen', '127.0.0.1:0', ...args], { env });
  servers.push(child);
  return new Promise((resolve, reject) => {
    let told = '';
    child.stderr.on('data', (data) => {
      told += data;
      const address = /listening on (http:\S+)/.exec(told);
      if (address) resolve(`${address[1]}/`);
    });
    child.on('exit', () => reject(new Error(`the server ended: ${told}`)));
  });
}

/** A page that notes whatever its console says. */
async function open(browser, width, colorScheme) {
  const context = await browser.newContext({
    viewport: { width, height: width > 500 ? 900 : 844 },
    colorScheme,
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.on('console', (message) => {
    // A node that is not there is asked for on purpose.
    if (page.url().includes('id=4000000000') && message.text().includes('404')) return;
    if (['error', 'warning'].includes(message.type())) wrong(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => wrong(`${page.url()}: ${error.message}`));
  return page;
}

/** Waits until nothing is on its way any more. */
async function settle(page) {
  await page.waitForSelector('main h1, main .note, main form');
  await page.waitForFunction(() => !document.querySelector('main .busy'), undefined, {
    timeout: 60_000,
  });
}

/** Checks what holds for every view, and keeps a picture. */
async function check(page, name) {
  await settle(page);
  const { width } = page.viewportSize();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) wrong(`${name}: ${wide} pixels wide on a screen of ${width}`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  for (const { id, impact, help, nodes } of violations) {
    if (!['serious', 'critical'].includes(impact)) continue;
    wrong(`${name}: ${impact} ${id}: ${help}: ${nodes.slice(0, 3).map(({ target, html }) => `${target} ${html.slice(0, 160)}`).join(' | ')}`);
  }
  const ran = await page.evaluate(() => globalThis.ran);
  if (ran !== undefined) wrong(`${name}: a document ran (${ran})`);
  if (given.shots) await page.screenshot({ path: join(given.shots, `${name}.png`), fullPage: true });
}

/** Presses Tab until what has the focus fits. */
async function tabTo(page, selector, presses = 80) {
  for (let n = 0; n < presses; n++) {
    const fits = await page.evaluate((selector) => document.activeElement?.matches(selector) ?? false, selector);
    if (fits) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${page.url()}: the keyboard does not get to ${selector}`);
}

/** Follows the keyboard alone: ask, open an answer, its node, the graph, the data. */
async function byKeyboard(page, address, base, question) {
  await page.goto(`${address}?base=${base}`);
  await settle(page);
  await tabTo(page, '#question');
  await page.keyboard.type(question);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.hit');
  await tabTo(page, '.hit .head');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.hit.open .detail .document');
  await settle(page);
  await tabTo(page, '.hit.open .detail a[href*="node"]');
  await page.keyboard.press('Enter');
  await page.waitForSelector('node-view small-graph .node');
  await settle(page);
  await tabTo(page, '.relations .head');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.relations li.open ul');
  await tabTo(page, 'small-graph .node');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await tabTo(page, 'node-view .line a[href*="open="], node-view .line a[href*="id="]');
  await page.keyboard.press('Enter');
  await settle(page);
  await page.goBack();
  await settle(page);
  await page.goto(`${address}data?base=${base}`);
  await settle(page);
  await tabTo(page, 'data-view th a');
  await page.keyboard.press('Enter');
  await settle(page);
}

/** A program is edited, run, changed and run again, by keyboard alone. */
async function playByKeyboard(page, address, base, question) {
  await page.goto(`${address}playground?base=${base}`);
  await settle(page);
  await tabTo(page, 'program-editor');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('fn retrieve(query, candidates, params) { search(query) }');
  await tabTo(page, '#question');
  await page.keyboard.type(question);
  await page.keyboard.press('Enter');
  await page.waitForSelector('playground-view table');
  await page.goto(page.url());
  await settle(page);
  const kept = await page.evaluate(() => document.querySelector('program-editor').value);
  if (!kept.includes('search(query)')) wrong('the address does not keep the program');
  await tabTo(page, 'playground-view button.primary');
  await page.keyboard.press('Enter');
  await page.waitForSelector('playground-view table');
  await page.evaluate(() => (document.querySelector('program-editor').value = 'fn retrieve(query, candidates, params) { search_with_names(query) }'));
  await page.keyboard.press('Enter');
  await page.getByText('since the run before').waitFor();
  await page.evaluate(() => (document.querySelector('program-editor').value = 'fn retrieve(query, candidates, params) {\n    serch(query)\n}'));
  await page.keyboard.press('Enter');
  await page.waitForSelector('playground-view .note.bad');
}

async function walk(browser, address, name, views) {
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) {
      const page = await open(browser, width, scheme);
      for (const [view, path] of views) {
        await page.goto(address + path);
        await settle(page);
        if (view === 'ask') {
          const first = page.locator('.hit .head').first();
          if (await first.count()) await first.click();
        }
        if (view === 'playground') {
          await page.locator('playground-view button.primary').click();
          await page.waitForSelector('playground-view table, playground-view .note');
        }
        if (view === 'compare') {
          await page.locator('compare-view .hit').first().waitFor();
          await settle(page);
          await page.locator('.hit .head').first().click();
        }
        await check(page, `${name}-${view}-${width}-${scheme}`);
      }
      await page.context().close();
    }
  }
  console.log(`${name}: ${views.length} views at ${WIDTHS.join(' and ')} pixels, ${SCHEMES.join(' and ')}`);
}

async function keyboard(browser, address, name, base, question) {
  const page = await open(browser, 1280, 'light');
  await byKeyboard(page, address, base, question);
  await playByKeyboard(page, address, base, question);
  await page.context().close();
  console.log(`${name}: asked, opened, drawn, edited and run by keyboard`);
}

async function hostile(browser, address) {
  const page = await open(browser, 1280, 'light');
  await page.goto(`${address}data`);
  await settle(page);
  const times = [];
  for (let n = 0; n < 5; n++) {
    await page.goto('about:blank');
    const began = performance.now();
    await page.goto(`${address}node?base=hostile&id=0&rel=in%3Anext_to`);
    await page.waitForSelector('.relations li.open ul li');
    await page.waitForSelector('small-graph .node');
    times.push(Math.round(performance.now() - began));
  }
  const median = [...times].sort((a, b) => a - b)[2];
  console.log(`a node with ${HUB} neighbours opens in ${median} ms (${times.join(', ')})`);
  if (median > HUB_MS) wrong(`a node with ${HUB} neighbours opens in ${median} ms`);
  await check(page, 'hostile-hub');
  for (const [name, path] of [
    ['node', 'node?base=hostile&id=1'],
    ['ask', `ask?base=hostile&q=${encodeURIComponent(`hub ${HOSTILE.join(' ')}`)}&node=1`],
    ['find', `node?base=hostile&find=${encodeURIComponent(HOSTILE[1])}`],
    ['data', 'data?base=hostile&type=spoke'],
  ]) {
    await page.goto(address + path);
    await check(page, `hostile-${name}`);
    const text = await page.evaluate(() => document.querySelector('main').innerText);
    if (!text.includes('window.ran')) wrong(`hostile-${name}: the document is not shown`);
  }
  await page.context().close();
}

/** Follows a run of the optimizer while it goes on, to its end. */
async function live(browser, address) {
  const page = await open(browser, 1280, 'light');
  const env = { ...process.env, AGENT_HOME: join(world, 'home') };
  const child = spawn(given.agent, ['optimize', '--dataset', 'amazon', '--seed', '7'], { env, stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const until = async (path, fits) => {
    for (let n = 0; n < 600; n++) {
      const reply = await fetch(address + path);
      if (reply.ok && fits(await reply.json())) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${path} does not come about`);
  };
  await until('v1/runs', ({ runs }) => runs.some(({ state }) => state === 'running'));
  await page.goto(`${address}run?id=latest`);
  const state = page.locator('run-view [role="status"] strong');
  await state.filter({ hasText: 'running' }).waitFor();
  await page.locator('run-view [aria-label^="Steps"] tbody tr').nth(2).waitFor({ timeout: 120_000 });
  if (given.shots) await page.screenshot({ path: join(given.shots, 'live.png'), fullPage: true });
  await state.filter({ hasText: 'finished' }).waitFor({ timeout: 300_000 });
  if ((await ended) !== 0) wrong('the run that is followed fails');
  const steps = await page.evaluate(() => document.querySelector('run-view').querySelectorAll('[aria-label^="Steps"] tbody tr').length);
  console.log(`a run is followed to its end: ${steps} steps`);
  await check(page, 'live-finished');
  // The same view as a file, which fetches nothing.
  const file = join(world, 'report.html');
  agent('report', '--run', 'latest', '--out', file);
  const fetched = [];
  page.on('request', (request) => fetched.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  await check(page, 'report');
  await page.locator('run-view tbody a').first().click();
  await page.locator('.lineage details[open] .source').first().waitFor();
  if (fetched.length !== 1) wrong(`the page of a report fetches ${fetched.slice(1)}`);
  await page.context().close();
}

function views(base, question, run) {
  const q = encodeURIComponent(question);
  return [
    ['begin', `?base=${base}`],
    ['ask', `?base=${base}&q=${q}`],
    ['filter', `?base=${base}&q=${q}&facets=1&where=${encodeURIComponent('type=product')}`],
    ['node', `node?base=${base}&id=1`],
    ['data', `data?base=${base}`],
    ['compare', `compare?base=${base}&left=${run ? 'active' : 'bm25'}&right=bm25%2Bnames&split=val`],
    ['runs', `run?base=${base}`],
    ...(run ? [['run', `run?base=${base}&id=amazon-0001`]] : []),
    ['playground', `playground?base=${base}&q=${q}`],
    ['unknown', `node?base=${base}&id=4000000000`],
  ];
}

try {
  if (given.shots) mkdirSync(given.shots, { recursive: true });
  const options = { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] };
  const browser = await chromium.launch(options);
  const question = 'a durable steel bottle';
  let own = given.at;
  if (!own) {
    agent('optimize', '--dataset', 'amazon', '--steps', '6');
    makeHostile();
    own = await serve(join(world, 'home'), '--bundle', 'latest', '--base', 'hostile');
  }
  const parts = given.base && given.at ? [] : given.parts.split(',');
  if (parts.includes('views')) await walk(browser, own, 'sample', views('amazon', question, true));
  if (parts.includes('keyboard')) await keyboard(browser, own, 'sample', 'amazon', question);
  if (parts.includes('hostile')) await hostile(browser, own);
  if (parts.includes('live') && !given.at) await live(browser, own);
  if (given.base) {
    const real = given.home ? await serve(given.home, '--base', given.base) : own;
    const { queries } = await (await fetch(`${real}v1/splits/val/queries?limit=1`)).json();
    await walk(browser, real, given.base, views(given.base, queries[0].query, false));
    await keyboard(browser, real, given.base, given.base, queries[0].query);
  }
  await browser.close();
} finally {
  for (const server of servers) server.kill('SIGTERM');
  rmSync(world, { recursive: true, force: true });
}
console.log(problems === 0 ? 'nothing is wrong' : `${problems} things are wrong`);
process.exitCode = problems === 0 ? 0 : 1;
