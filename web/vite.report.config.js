// How the page of `agent report` is built: one file with its script and style, that fetches nothing.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { defineConfig } from 'vite';

/** Puts the script and the style into a page with an empty record, and lets nothing else run. */
const page = {
  name: 'page',
  enforce: 'post',
  generateBundle(_, bundle) {
    const files = Object.values(bundle);
    const script = files.find(({ type }) => type === 'chunk').code.trim().replaceAll('</script', '<\\/script');
    const style = files.find(({ fileName }) => fileName.endsWith('.css')).source.trim();
    // What is built in wants its licence beside it.
    const licence = (name) => `${name}: ${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}`;
    const licences = ['lit', 'uplot'].map(licence).join('\n\n');
    const digest = createHash('sha256').update(script).digest('base64');
    for (const { fileName } of files) delete bundle[fileName];
    const source = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'">
<title>agent report</title>
<style>${style}</style>
</head>
<body>
<main><noscript>This page needs JavaScript; it fetches nothing. agent run show tells the same.</noscript></main>
<script type="application/json" id="record"></script>
<script>${script}</script>
</body>
</html>
<!--
${licences}
-->
`;
    this.emitFile({ type: 'asset', fileName: 'report.html', source });
  },
};

export default defineConfig({
  plugins: [page],
  publicDir: false,
  build: {
    target: 'es2022',
    emptyOutDir: false,
    cssCodeSplit: false,
    rollupOptions: { input: 'src/report.ts', output: { format: 'iife' } },
  },
});
