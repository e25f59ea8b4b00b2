import { defineConfig } from 'vite';

// The oldest browsers with CSS light-dark(), which carries both themes.
const browsers = ['chrome123', 'firefox120', 'safari17.5'];

export default defineConfig({
  base: './', // the same files work under any path prefix
  build: {
    target: browsers,
    cssTarget: browsers,
    assetsInlineLimit: 0, // the content security policy allows no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: {
    proxy: { '^/[a-z]+\\.v1\\.': process.env.FLAMETREE_URL ?? 'http://127.0.0.1:4040' },
  },
});
