// Numbers as people say them: three significant digits and a unit chosen by size. The tooltip has the exact integer.
import { GONE, NEW } from './series';

export type Unit = 'nanoseconds' | 'bytes' | 'count';
type Scale = [factor: number, symbol: string][];

const TIME: Scale = [
  [86400e9, 'd'], [3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns'],
];
const BYTES: Scale = [
  [2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B'],
];
const COUNT: Scale = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
const SCALES: Record<Unit, Scale> = { nanoseconds: TIME, bytes: BYTES, count: COUNT };

/** Three significant digits of a number below 1000 or so, two of a very small one, and just 0. */
export function digits(v: number): string {
  const size = Math.abs(v);
  if (size > 0 && size < 1e-6) return '<0.000001';
  if (size < 0.00995) return String(Number(v.toPrecision(2)));
  if (size >= 99.95) return v.toFixed(0);
  return v.toFixed(size >= 9.995 ? 1 : 2);
}

// Just below a unit counts as that unit: 999.95 ms is 1.00 s.
const unitFor = (scale: Scale, size: number) => scale.find(([f]) => Math.abs(size) >= f * 0.9995) ?? scale[scale.length - 1];

/** In the unit that suits `like`, so that the marks of an axis have one unit. */
export function value(v: number, unit: Unit, like = v): string {
  if (v === 0) return '0';
  const [factor, symbol] = unitFor(SCALES[unit], like);
  // Whole small numbers stay whole: 7 B, not 7.00 B.
  const text = factor === 1 && Number.isInteger(v) ? String(v) : digits(v / factor);
  return symbol ? `${text} ${symbol}` : text;
}

// A tenth of a core is read as it is; less has a prefix.
const CORES: Scale = [[0.0995, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];

export function cores(v: number, like = v): string {
  const [from, prefix] = unitFor(CORES, like);
  if (v === 0) return '0 cores';
  return `${digits(prefix ? v / from : v)} ${prefix}${v === 1 ? 'core' : 'cores'}`;
}

const EVERY: [seconds: number, symbol: string][] = [[1, 's'], [60, 'min'], [3600, 'h'], [86400, 'd']];

/** An amount of less than one a second is written per minute, hour or day. */
export function perTime(v: number, unit: Unit, like = v): string {
  const [seconds, symbol] = EVERY.find(([s]) => Math.abs(like) * s >= 0.9995) ?? EVERY[like === 0 ? 0 : EVERY.length - 1];
  return `${value(v * seconds, unit, like * seconds)}/${symbol}`;
}

/** A trend: `+12.3 %` or `12.3 %` where an arrow stands for the sign. */
export function change(part: number | null, signed = false): string {
  if (part === null) return '–';
  if (part === NEW || part === GONE) return part === NEW ? 'new' : 'gone';
  return `${signed ? (part >= 0 ? '+' : '−') : ''}${digits(Math.abs(part) * 100)} %`;
}

/** The two halves that a trend compares. */
export function riseWords(part: number | null): string {
  if (part === NEW || part === GONE) return part === NEW ? 'Began within the range' : 'Ended within the range';
  return part === null ? 'Too little to tell' : 'Second half of the range against the first';
}

export function percent(share: number): string {
  if (share === 0) return '0 %';
  const size = Math.abs(share);
  if (size < 0.0001) return '<0.01 %';
  return `${(share * 100).toFixed(size >= 0.09995 ? 1 : 2)} %`;
}

/** A change of share in percentage points, with a real minus sign. */
export function points(change: number): string {
  const size = Math.abs(change);
  if (size === 0) return '0 pp';
  const text = size < 0.00005 ? '<0.01' : (size * 100).toFixed(size >= 0.09995 ? 1 : 2);
  return `${change > 0 ? '+' : '−'}${text} pp`;
}

/** The factor from one value to another, or a word where there is none. */
export function times(from: number, to: number): string {
  if (from === to) return from === 0 ? '–' : '×1.00';
  if (from === 0) return 'new';
  return to === 0 ? 'gone' : `×${digits(to / from)}`;
}

/** All digits in groups of three. Beyond 2^53 a double is no longer exact, and the text says so. */
export function exact(v: number): string {
  const grouped = Math.abs(v).toFixed(0).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return (Math.abs(v) > Number.MAX_SAFE_INTEGER ? '≈ ' : '') + (v < 0 ? '−' : '') + grouped;
}

export function plural(n: number, one: string): string {
  return `${exact(n)} ${one}${n === 1 ? '' : 's'}`;
}
