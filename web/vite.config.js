// How the explorer is built: files that name nothing outside of themselves and the server they came
// from, so that the strictest policy holds; the same bytes from the same sources.
import { defineConfig } from 'vite';

export default defineConfig({
  // Addresses are relative, so that a proxy may serve it below a path.
  base: './',
  build: {
    target: 'es2022',
    // No `data:` addresses and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: 'licences.md' },
    reportCompressedSize: true,
  },
});
