// Colours of frames. Hues have equal lightness in OKLCH, so that no package shouts; three close shades of each keep
// neighbours apart. Code has a hue, C libraries a pale one, the standard library is blue-grey, kernel and runtime are
// grey, so real code stands out. Colours depend on names alone: a package has the same colour in every picture.
import { learnKernel, origin, type Kind, type Origin } from './names';
import { below, hashText, ROOT, share, type Flame } from './model';
import { changeBy, scaleText, type Norm } from './norm';

export type Theme = 'dark' | 'light';
/** What the colour of a frame tells. In a comparison it always tells the change. */
export type ColorBy = 'package' | 'function' | 'self';
/** `safe` is told apart by everyone; green and red are nearly one colour to every twelfth man. */
export type DiffPalette = 'safe' | 'classic';

export interface Palette {
  code: string[]; // three shades a hue
  native: string[];
  library: string[];
  kernel: string[];
  runtime: string[];
  text: string; // on all of the above
  dust: string; // bars too narrow to tell apart, and the callers of a zoomed frame
  dustText: string;
  hit: string; // grey frames that a search found
  mark: string; // below all that a search found
}

const HUES = [8, 26, 44, 62, 80, 98, 116, 134, 152, 170, 188, 206, 224, 280, 298, 316, 334, 350];
const LIBRARY_HUES = [245, 262, 228];
const SHADES = 3, SHADE_STEP = 0.028;
const LEGEND = 6;
/** Shares of self from which a frame has the strongest colour, and changes of a share; smaller ones go by the root. */
const HOT = 0.1, LOUD = 0.25, UNCHANGED = 0.0005;
const HEAT_STEPS = 8, DIFF_STEPS = 11;

/** OKLCH to sRGB: Björn Ottosson, "A perceptual color space for image processing". */
function oklch(lightness: number, chroma: number, hue: number): string {
  const a = chroma * Math.cos((hue * Math.PI) / 180), b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const channel = (v: number) => {
    const c = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
    return Math.round(Math.min(1, Math.max(0, c)) * 255).toString(16).padStart(2, '0');
  };
  return '#' + linear.map(channel).join('');
}

function makePalette(theme: Theme): Palette {
  const dark = theme === 'dark';
  const shades = (lightness: number, chroma: number, hue: number) =>
    [0, SHADE_STEP, -SHADE_STEP].map((d) => oklch(lightness + d, chroma, hue));
  return {
    // A strong tone of every hue, then a paler one: twice as many packages are told apart.
    code: [...HUES.flatMap((h) => shades(dark ? 0.745 : 0.835, dark ? 0.115 : 0.105, h)), ...HUES.flatMap((h) => shades(dark ? 0.81 : 0.885, dark ? 0.08 : 0.065, h))],
    native: HUES.flatMap((h) => shades(dark ? 0.75 : 0.88, dark ? 0.06 : 0.05, h)),
    library: LIBRARY_HUES.flatMap((h) => shades(dark ? 0.7 : 0.86, dark ? 0.05 : 0.045, h)),
    kernel: shades(dark ? 0.64 : 0.79, 0.035, 15),
    runtime: shades(dark ? 0.64 : 0.88, 0.012, 260),
    text: '#12151a',
    dust: dark ? '#323a45' : '#dde2e8',
    dustText: dark ? '#a3adba' : '#525c69',
    hit: dark ? '#f2c14a' : '#ffd24d',
    mark: dark ? '#ff8552' : '#c8431a',
  };
}

export const PALETTES: Record<Theme, Palette> = { dark: makePalette('dark'), light: makePalette('light') };

export interface LegendEntry { text: string; color: string }
/** A picture on screen, and what its frames weigh in the legend. */
export interface Shown { of: Flame; focus: number; weight: Float64Array }

/** All that the renderer and the page need to know of colours. */
export interface Paint {
  palette: Palette;
  styles: string[];
  rest: number; // the style of cut-off frames, which is drawn hatched; -1 if there are none
  cut: number; // the same of frames that end stacks cut when pushed
  colorOf: (name: string) => string; // where names have colours
  styleOf: (f: Flame, frame: number) => number;
  legendOf: ((shown: Shown[]) => LegendEntry[]) | null; // the heaviest packages on screen
  scale: { from: string; to: string; colors: string[] } | null; // the meaning of colours that are a measure
}

const GROUPS: Record<Kind, (pkg: string) => string> = {
  code: (pkg) => pkg.replace(/^github\.com\//, '') || 'no package',
  library: () => 'standard library',
  native: (pkg) => pkg,
  kernel: () => 'kernel',
  runtime: () => 'runtime',
  rest: () => '',
  cut: () => '',
};

/** The first of the three shades of an origin, which its legend has too. */
function shadesOf(palette: Palette, { kind, package: pkg }: Origin): [list: string[], first: number] {
  const list = kind === 'rest' || kind === 'cut' ? palette.runtime : palette[kind];
  return [list, hashText(kind === 'library' ? pkg.split('/')[0] : pkg) % (list.length / SHADES) * SHADES];
}

/** One grey, then from pale to strong. */
export function heatScale(theme: Theme): string[] {
  const dark = theme === 'dark';
  return Array.from({ length: HEAT_STEPS + 1 }, (_, i) => {
    const t = i / HEAT_STEPS;
    return i === 0 ? oklch(dark ? 0.62 : 0.92, 0.008, 260) : oklch(dark ? 0.66 + 0.07 * t : 0.92 - 0.17 * t, 0.02 + 0.13 * t, 75 - 35 * t);
  });
}

/** From much less over grey to much more. */
export function diffScale(theme: Theme, palette: DiffPalette): string[] {
  const dark = theme === 'dark', less = palette === 'safe' ? 248 : 150, more = palette === 'safe' ? 52 : 25;
  return Array.from({ length: 2 * DIFF_STEPS + 1 }, (_, k) => {
    const i = k - DIFF_STEPS, t = Math.abs(i) / DIFF_STEPS;
    if (i === 0) return oklch(dark ? 0.62 : 0.91, 0.006, 260);
    return oklch(dark ? 0.64 + 0.1 * t : 0.91 - 0.17 * t, 0.02 + (dark ? 0.135 : 0.14) * t, i < 0 ? less : more);
  });
}

/** The step of diffScale for a change of share, in parts of 1. */
export function diffStep(change: number): number {
  if (Math.abs(change) < UNCHANGED) return DIFF_STEPS;
  const t = Math.min(1, Math.sqrt(Math.abs(change) / LOUD));
  return DIFF_STEPS + Math.sign(change) * Math.max(1, Math.round(t * DIFF_STEPS));
}

/** Colours by a number that each frame has. Cut-off frames stay hatched. */
function paintMeasure(f: Flame, palette: Palette, scale: NonNullable<Paint['scale']>, stepOf: (f: Flame, frame: number) => number): Paint {
  const rest = scale.colors.length, cut = rest + 1, kinds: Partial<Record<Kind, number>> = { rest, cut };
  const hatched = Uint16Array.from(f.names, (n) => kinds[origin(n).kind] ?? 0);
  return {
    palette, styles: [...scale.colors, palette.runtime[0], palette.runtime[0]], rest, cut, colorOf: () => '', legendOf: null, scale,
    styleOf: (of, i) => hatched[of.name[i]] || stepOf(of, i),
  };
}

/** With an empty side all is grey, and a scale without ends says nothing. */
export function paintChange(f: Flame, theme: Theme, palette: DiffPalette, norm: Norm): Paint {
  const end = scaleText(norm, f, LOUD), scale = { from: norm.empty ? '' : `−${end}`, to: `+${end}`, colors: diffScale(theme, palette) };
  return paintMeasure(f, PALETTES[theme], scale, (of, i) => diffStep(changeBy(norm, of.total[i], of.right!.total[i])));
}

function paintSelf(f: Flame, theme: Theme): Paint {
  const scale = { from: 'self 0 %', to: '10 %', colors: heatScale(theme) }, whole = f.total[ROOT];
  const stepOf = (of: Flame, i: number) => {
    const part = share(of.self[i], whole);
    return part === 0 ? 0 : Math.max(1, Math.round(Math.min(1, Math.sqrt(part / HOT)) * HEAT_STEPS));
  };
  return paintMeasure(f, PALETTES[theme], scale, stepOf);
}

/** Frames below the entry to the kernel belong to the kernel, unless their name says otherwise. */
function findKernel(f: Flame, origins: Origin[]): void {
  const within = new Uint8Array(f.count);
  for (let i = 1; i < f.count; i++) {
    const name = f.name[i], o = origins[name], entered = within[f.parent[i]] === 1;
    if (entered && o.kind === 'code' && o.package === '') {
      learnKernel(f.names[name]);
      origins[name] = origin(f.names[name]);
    }
    if (origins[name].kind === 'kernel') within[i] = 1;
  }
}

function paintNames(f: Flame, theme: Theme, by: 'package' | 'function'): Paint {
  const palette = PALETTES[theme], origins = f.names.map(origin);
  findKernel(f, origins);
  const color = (name: string, o: Origin): string => {
    const hash = hashText(name), [list, first] = shadesOf(palette, o);
    if (by === 'function' && o.kind !== 'rest' && o.kind !== 'cut') return palette.code[hash % palette.code.length];
    return list[first + (hash >>> 8) % SHADES];
  };
  const styles: string[] = [], known = new Map<string, number>();
  const style = (key: string, c: string): number => {
    if (!known.has(key)) known.set(key, styles.push(c) - 1);
    return known.get(key)!;
  };
  const ofName = Uint16Array.from(origins, (o, i) => {
    const c = color(f.names[i], o);
    return style(o.kind === 'rest' || o.kind === 'cut' ? o.kind : c, c);
  });
  const groups = new Map<string, number>(), colors: string[] = [];
  const groupOf = Int32Array.from(origins, (o) => {
    const text = GROUPS[o.kind](o.package), [list, first] = shadesOf(palette, o);
    if (!groups.has(text)) groups.set(text, colors.push(list[first]) - 1);
    return groups.get(text)!;
  });
  return {
    palette, styles, rest: known.get('rest') ?? -1, cut: known.get('cut') ?? -1, scale: null,
    colorOf: (name) => color(name, origin(name)), styleOf: (of, i) => ofName[of.name[i]],
    legendOf: by === 'function' ? null : (shown) => {
      const sums = new Float64Array(groups.size);
      for (const { of, focus, weight } of shown) below(of, focus, (i) => (sums[groupOf[of.name[i]]] += weight[i]));
      return [...groups].map(([text, g]) => ({ text, color: colors[g], sum: sums[g] })).filter((g) => g.text && g.sum > 0)
        .sort((a, b) => b.sum - a.sum).slice(0, LEGEND);
    },
  };
}

/** Colours of a graph and of all that is made from it: order, sandwich and table share its names. */
export function makePaint(f: Flame, theme: Theme, by: ColorBy = 'package'): Paint {
  return by === 'self' ? paintSelf(f, theme) : paintNames(f, theme, by);
}
