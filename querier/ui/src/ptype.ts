// Profile types: `name:sample type:sample unit:period type:period unit`, for people and for number formats.
import { cores, digits, perTime, value, type Unit } from './format';

const NAMES: Record<string, string> = {
  'process_cpu:cpu': 'CPU time',
  'process_cpu:samples': 'CPU samples',
  'process_cpu:alloc_samples': 'Allocation samples',
  'process_cpu:alloc_size': 'Allocated space',
  'wall:wall': 'Wall time',
  'wall:sample': 'Wall samples',
  'wall:samples': 'Wall samples',
  'memory:alloc_objects': 'Allocated objects',
  'memory:alloc_space': 'Allocated space',
  'memory:alloc_in_new_tlab_objects': 'Allocated objects, new TLAB',
  'memory:alloc_in_new_tlab_bytes': 'Allocated space, new TLAB',
  'memory:inuse_objects': 'In-use objects',
  'memory:inuse_space': 'In-use space',
  'memory:objects': 'Objects',
  'memory:space': 'Space',
  'goroutine:goroutine': 'Goroutines',
  'goroutine:goroutines': 'Goroutines',
  'goroutines:goroutine': 'Goroutines',
  'goroutines:goroutines': 'Goroutines',
  'mutex:contentions': 'Mutex contentions',
  'mutex:delay': 'Mutex delay',
  'block:contentions': 'Block contentions',
  'block:delay': 'Block delay',
};
const GAUGES = /^(inuse_.*|goroutines?)$/;
const CPU = 'process_cpu:cpu:';

function parts(id: string): string[] {
  return id.split(':');
}

export function typeName(id: string): string {
  const [name, sample = ''] = parts(id);
  return NAMES[`${name}:${sample}`] ?? (sample && sample !== name ? `${name} · ${sample}` : name || id);
}

/** The same within a sentence: "in-use space", but "CPU time". */
export const typeInText = (id: string): string => typeName(id).replace(/^[A-Z](?=[a-z])/, (c) => c.toLowerCase());

/** Names for a list of types, in the order of the names. Two types that would read alike show their ids. */
export function nameTypes(ids: string[]): { id: string; text: string }[] {
  const seen = new Map<string, number>();
  for (const id of ids) seen.set(typeName(id), (seen.get(typeName(id)) ?? 0) + 1);
  return ids
    .map((id) => ({ id, text: seen.get(typeName(id)) === 1 ? typeName(id) : `${typeName(id)} (${id})` }))
    .sort((a, b) => (a.text < b.text ? -1 : 1));
}

// Units as profilers in the wild write them; those of pprof's own tool among them. µ is a sign (U+00B5) and a Greek letter (U+03BC).
const TIMES = /^(n|nano|[uµμ]|micro|m|milli)?(s|secs?|seconds?)$/, LONG_TIMES = /^(min|hour|hr|h|day|d)(ute)?s?$/;
const SPACES = /^(?:(k|kilo|m|mega|g|giga|t|tera|p|peta)i?)?(b|bytes?)$/, COUNTS = /^(counts?|units?|none|1|#|)$/;
const PREFIXES: Record<string, number> = { n: 1, u: 1e3, µ: 1e3, μ: 1e3, micro: 1e3, m: 1e6, milli: 1e6 };
const LONG: Record<string, number> = { m: 60e9, h: 3600e9, d: 86400e9 };

/** The unit to write values in, and what to multiply the stored values by to get there. */
export function unitOf(id: string): { unit: Unit; factor: number; stored: string } {
  const stored = parts(id)[2] ?? '', text = stored.trim().toLowerCase();
  const time = TIMES.exec(text), long = LONG_TIMES.exec(text), space = SPACES.exec(text);
  if (time) return { unit: 'nanoseconds', factor: time[1] ? PREFIXES[time[1]] ?? 1 : 1e9, stored };
  if (long) return { unit: 'nanoseconds', factor: LONG[long[1][0]], stored };
  if (space) return { unit: 'bytes', factor: 1024 ** (space[1] ? 'kmgtp'.indexOf(space[1][0]) + 1 : 0), stored };
  return { unit: 'count', factor: 1, stored: COUNTS.test(text) ? '' : stored };
}

/** Writes values of a profile type. */
export function valueWriter(id: string): (v: number) => string {
  const { unit, factor } = unitOf(id);
  return (v) => value(v * factor, unit);
}

/**
 * How values over time are read: what stored values per second are multiplied by, and how the result is written, in the
 * unit that suits it or another value.
 */
export interface Rate { factor: number; what: string; write: (v: number, like?: number) => string }

/** CPU time per time is cores, space is bytes a second; gauges are the mean of their profiles, and no rate. */
export function rateOf(id: string): Rate {
  const { unit, factor } = unitOf(id);
  if (isGauge(id)) return { factor, what: 'mean per profile', write: (v, like) => value(v, unit, like) };
  if (unit === 'nanoseconds' && id.startsWith(CPU)) return { factor: factor / 1e9, what: 'cores in use', write: cores };
  // Never minutes a second: seconds are the longest unit in which a rate of time is read.
  if (unit === 'nanoseconds') return { factor: factor / 1e9, what: 'seconds per second', write: secondsPerSecond };
  return { factor, what: 'per second', write: (v, like) => perTime(v, unit, like) };
}

const secondsPerSecond = (v: number, like = v): string =>
  `${Math.abs(like) >= 0.0995 ? `${digits(v)} s` : value(v * 1e9, 'nanoseconds', like * 1e9)}/s`;

/** Values like heap in use are states, not amounts: over a range they are summed over its profiles. */
export const isGauge = (id: string): boolean => GAUGES.test(parts(id)[1] ?? '');

interface Legacy { type: string; service: string }

const LEGACY_CPU = ['process_cpu:cpu:nanoseconds', 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'];
const LEGACY_WALL = ['wall:wall:nanoseconds', 'wall:wall:nanoseconds:cpu:nanoseconds'];
const memory = (sample: string, unit: string) => [`memory:${sample}:${unit}`, `memory:${sample}:${unit}:space:bytes`];
const delays = (name: string) => [`${name}:delay:nanoseconds`, `${name}:delay:nanoseconds:contentions:count`];
const counts = (name: string) => [`${name}:contentions:count`, `${name}:contentions:count:contentions:count`];

/** Suffixes of the names that agents used before there were profile types: what a type begins with, and a whole one. */
const SUFFIXES: Record<string, string[]> = {
  cpu: LEGACY_CPU, itimer: LEGACY_CPU,
  wall: LEGACY_WALL, seconds: LEGACY_WALL, nanoseconds: LEGACY_WALL, microseconds: LEGACY_WALL, milliseconds: LEGACY_WALL,
  inuse_objects: memory('inuse_objects', 'count'), inuse_space: memory('inuse_space', 'bytes'),
  alloc_objects: memory('alloc_objects', 'count'), alloc_space: memory('alloc_space', 'bytes'),
  goroutines: ['goroutine', 'goroutines:goroutine:count:goroutine:count'],
  mutex_count: counts('mutex'), mutex_duration: delays('mutex'), block_count: counts('block'), block_duration: delays('block'),
  lock_count: counts('block'), lock_duration: delays('block'),
  alloc_in_new_tlab_objects: memory('alloc_in_new_tlab_objects', 'count'),
  alloc_in_new_tlab_bytes: memory('alloc_in_new_tlab_bytes', 'bytes'),
  alloc_outside_tlab_objects: memory('alloc_outside_tlab_objects', 'count'),
  alloc_outside_tlab_bytes: memory('alloc_outside_tlab_bytes', 'bytes'),
  live: memory('live', 'count'), exceptions: ['exceptions:samples:count', 'exceptions:samples:count::'],
};

/**
 * The type and service of a name such as `shop.cpu`, which links in traces have; the type is one of `types` if any of
 * the service's fits. Null if the suffix is unknown.
 */
export function fromLegacy(name: string, typesOf: (service: string) => string[]): Legacy | null {
  const dot = name.lastIndexOf('.'), service = dot < 0 ? name : name.slice(0, dot);
  const [start, whole] = SUFFIXES[dot < 0 ? 'cpu' : name.slice(dot + 1)] ?? [];
  if (start === undefined || service === '') return null;
  return { service, type: typesOf(service).find((id) => id.startsWith(start)) ?? whole };
}

export const isTypeId = (text: string): boolean => [5, 6].includes(parts(text).length);

/**
 * The profile type to show of a service when the address names none: CPU time, or the space in use, which says more of a heap than all
 * that was ever allocated, or the first by name.
 */
export function preferredType(ids: string[]): string {
  return ids.find((id) => id.startsWith(CPU)) ?? ids.find((id) => /^[^:]+:inuse_space:/.test(id)) ?? nameTypes(ids)[0]?.id ?? '';
}
