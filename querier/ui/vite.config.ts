import { defineConfig, type Plugin } from 'vite';

/**
 * uPlot hangs all that it can draw on one object, so a bundler keeps bars, steps, splines and the rest, which nobody asks
 * for here. Without those assignments they fall out by themselves. Another version of uPlot may need other words: the
 * build fails then.
 */
const UNUSED = [
  /\(paths\.(stepped|bars|spline) *= \w+\);/g, /uPlot\.(join|rangeLog|rangeAsinh|fmtNum|assign|orient|addGap|clipGaps|fmtDate|sync|rangeNum) *= \w+;/g,
];
/** Options that are the same for all charts here: no legend, points in columns, times in seconds, linear axes that write their own marks. */
const DECIDED: [string, string][] = [
  ['const showLegend = legend.show;', 'const showLegend = false;'],
  ['const mode = self.mode;', 'const mode = 1;'], ['const ms = opts.ms || 1e-3;', 'const ms = 1e-3;'], ['genTimeStuffs(1)', '[]'],
  ['timeAxisVals(_tzDate, timeAxisStamps((ms == 1 ? _timeAxisStampsMs : _timeAxisStampsS), _fmtDate))', 'null'],
  ['timeSeriesVal(_tzDate, timeSeriesStamp(_timeSeriesStamp, _fmtDate))', '(u, v) => v'],
  ['isStr(sv) ? timeSeriesVal(_tzDate, timeSeriesStamp(sv, _fmtDate)) : sv || _timeSeriesVal', '_timeSeriesVal'],
  ['sc.distr == 3 ? snapLogX : sc.distr == 4 ? snapAsinhX : ', ''], ['sc.distr == 3 ? snapLogY : sc.distr == 4 ? snapAsinhY : ', ''],
  ['sc.distr == 3 ? logAxisSplits : sc.distr == 4 ? asinhAxisSplits : ', ''],
  ['sc.distr >= 3 && sc.log == 10 ? log10AxisValsFilt : sc.distr == 3 && sc.log == 2 ? log2AxisValsFilt : ', ''],
  ['sc.distr == 3   ? val => log10(val > 0 ? val : sc.clamp(self, val, sc.min, sc.max, sc.key)) :', ''],
  ['sc.distr == 4   ? val => asinh(val, sc.asinh) :', ''], ['distr == 3 ? pow(10, sv) :', ''], ['distr == 4 ? sinh(sv, sc.asinh) :', ''],
  ['distr == 3 ? log10(sc.min) : distr == 4 ? asinh(sc.min, sc.asinh) : ', ''], ['distr == 3 ? log10(sc.max) : distr == 4 ? asinh(sc.max, sc.asinh) : ', ''],
  ['days.map(slice3)', '[]'], ['months.map(slice3)', '[]'],
  ['timeAxisVals(_tzDate, timeAxisStamps(av, _fmtDate))', 'null'], ['timeAxisVal(_tzDate, av)', 'null'], ['(opts.fmtDate || fmtDate)', 'null'],
];
const onlyLines: Plugin = {
  name: 'uplot-only-lines',
  transform(code, id) {
    if (!id.endsWith('uPlot.esm.js')) return undefined;
    const rest = UNUSED.reduce((text, words) => {
      if (text.search(words) < 0) throw new Error(`uPlot has no ${words.source}`);
      return text.replace(words, '');
    }, code);
    return DECIDED.reduce((text, [words, by]) => {
      if (!text.includes(words)) throw new Error(`uPlot has no ${words}`);
      return text.replace(words, by);
    }, rest);
  },
};

// The oldest browsers with CSS light-dark(), which carries both themes.
const browsers = ['chrome123', 'firefox120', 'safari17.5'];

const server = process.env.FLAMETREE_URL ?? 'http://127.0.0.1:4040';

export default defineConfig({
  plugins: [onlyLines],
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
    proxy: { '^/([a-z]+\\.v1\\.|distributor/)': { target: server, changeOrigin: true, headers: { origin: server } } }, // it takes none but its own page
  },
});
