import { chromium } from 'playwright-core'; import { readFileSync, mkdirSync } from 'node:fs';
const axe = readFileSync('node_modules/axe-core/axe.min.js','utf8');
const b = await chromium.launch({executablePath:'/usr/bin/chromium',args:['--no-sandbox']});
const views={begin:"",ask:"?q=a%20durable%20steel%20bottle",node:"node?id=1"};
mkdirSync('/tmp/shots',{recursive:true});
const only=process.argv[2]?.split(',');
for (const width of [1280,390]) for (const scheme of ['light','dark']) { if (process.argv[3] && !process.argv[3].split(',').includes(width+scheme)) continue;
 const c=await b.newContext({viewport:{width,height:900},colorScheme:scheme,reducedMotion:'reduce'}); const p=await c.newPage();
 p.on('console',m=>['error','warning'].includes(m.type())&&console.log('CONSOLE',p.url(),m.text())); p.on('pageerror',e=>console.log('PAGEERROR',p.url(),e.stack));
 for (const [n,u] of Object.entries(views)) { if (only && !only.includes(n) && only[0]!=='all') continue; await p.goto('http://127.0.0.1:7999/'+u); await p.waitForSelector('main h1, main .note, main form');
  if(n==='playground'){await p.waitForSelector('program-editor');await p.click('playground-view button.primary');await p.waitForSelector('playground-view table');await p.evaluate(()=>{const e=document.querySelector('program-editor');e.value=e.value+'// x'});await p.click('playground-view button.primary');}
  await p.waitForTimeout(2500); if(n==='ask'){await p.locator('.hit .head').first().click();await p.waitForTimeout(1500)};
  const w=await p.evaluate(()=>document.documentElement.scrollWidth); if(w>width)console.log('WIDE',n,width,w);
  await p.evaluate(axe); const r=await p.evaluate(()=>axe.run(document,{resultTypes:['violations']}));
  for(const v of r.violations) console.log('AXE',n,width,scheme,v.impact,v.id,v.nodes.slice(0,2).map(x=>x.target+' '+x.html.slice(0,120)+' '+(x.any[0]?.message||'').slice(0,140)).join(' | '));
  await p.screenshot({path:`/tmp/shots/${n}-${width}-${scheme}.png`,fullPage:true}); }
 await c.close(); }
await b.close();
