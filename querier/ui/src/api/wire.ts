// The little of protobuf that flame graphs need. They travel binary because 200 000 frames parse in 20 ms so and in
// 340 ms as JSON, whose 64-bit numbers are strings.

export interface MergeRequest {
  type: string;
  selector: string;
  start: number;
  end: number;
  maxNodes: number;
  path?: string[]; // only stacks that begin with these functions
  spans?: string[]; // only what these spans did
  asProfile?: boolean; // a pprof file instead of a flame graph
}
/** `readable` has the texts of mangled names, by their index in `names`. */
export interface WireGraph { names: string[]; levels: Float64Array[]; readable: [index: number, text: string][] }

/** Collects the bytes of one message. */
class Writer {
  readonly bytes: number[] = [];

  private varint(n: number): void {
    let v = n;
    for (; v > 127; v = Math.floor(v / 128)) this.bytes.push((v % 128) | 128);
    this.bytes.push(v);
  }

  number(field: number, n: number): void {
    this.varint(field << 3);
    this.varint(n);
  }

  part(field: number, bytes: ArrayLike<number>): void {
    this.varint((field << 3) | 2);
    this.varint(bytes.length);
    for (let i = 0; i < bytes.length; i++) this.bytes.push(bytes[i]);
  }

  text(field: number, s: string): void {
    this.part(field, new TextEncoder().encode(s));
  }
}

/** types.v1.StackTraceSelector { call_site 1: Location { name 1 } } */
function callSite(path: string[]): number[] {
  const selector = new Writer();
  for (const name of path) {
    const location = new Writer();
    location.text(1, name);
    selector.part(1, location.bytes);
  }
  return selector.bytes;
}

const PPROF = 4; // of querier.v1.ProfileFormat

function mergeRequest(q: MergeRequest): number[] {
  const out = new Writer();
  out.text(1, q.type);
  out.text(2, q.selector);
  out.number(3, q.start);
  out.number(4, q.end);
  out.number(5, q.maxNodes);
  if (q.asProfile) out.number(6, PPROF);
  if (q.path && q.path.length > 0) out.part(7, callSite(q.path));
  for (const span of q.spans ?? []) out.text(11, span);
  return out.bytes;
}

/**
 * querier.v1.SelectMergeStacktracesRequest: profile_typeID 1, label_selector 2, start 3, end 4, max_nodes 5, format 6,
 * stack_trace_selector 7, span_selector 11.
 */
export const writeMergeRequest = (q: MergeRequest): Uint8Array<ArrayBuffer> => Uint8Array.from(mergeRequest(q));

/** querier.v1.DiffRequest: left 1, right 2. */
export function writeDiffRequest(left: MergeRequest, right: MergeRequest): Uint8Array<ArrayBuffer> {
  const out = new Writer();
  out.part(1, mergeRequest(left));
  out.part(2, mergeRequest(right));
  return Uint8Array.from(out.bytes);
}

const utf8 = new TextDecoder(), EARLY = 'The flame graph ends too early.';

/** Walks over one message at a time; what does not fit in the bytes given is an error, never a loop or a hole. */
class Reader {
  constructor(readonly bytes: Uint8Array, public at: number, readonly end: number) {}

  /**
   * Up to 2^53 a double is exact; beyond (104 days of one core in ns) it keeps 15 digits. What is below zero has a tenth
   * byte, and is read from the bits that are not set, to be as exact.
   */
  varint(): number {
    let v = 0, unset = 0, scale = 1, b: number;
    do {
      if (this.at >= this.end || scale > 2 ** 63) throw new Error(EARLY);
      b = this.bytes[this.at++];
      if (scale === 2 ** 63 && b === 1) return -1 - unset;
      v += (b & 127) * scale;
      unset += (~b & 127) * scale;
      scale *= 128;
    } while (b > 127);
    return v;
  }

  message(): Reader {
    const size = this.varint();
    if (size < 0 || size > this.end - this.at) throw new Error(EARLY);
    const inner = new Reader(this.bytes, this.at, this.at + size);
    this.at += size;
    return inner;
  }

  /** Steps over a field that we do not read. */
  skip(wireType: number): void {
    if (wireType === 0) this.varint();
    else if (wireType === 2) this.message();
    else if (wireType === 1 || wireType === 5) this.at += wireType === 1 ? 8 : 4;
    else throw new Error('The flame graph is not protobuf.');
  }

  /** Short ASCII, which nearly all names are, skips the decoder: calling it costs more than the text. */
  text(): string {
    const { bytes, at, end } = this;
    if (end - at > 96) return utf8.decode(bytes.subarray(at, end));
    for (let i = at; i < end; i++) if (bytes[i] > 127) return utf8.decode(bytes.subarray(at, end));
    return String.fromCharCode.apply(null, bytes.subarray(at, end) as unknown as number[]);
  }

  /** Packed integers. A varint ends at its byte below 128, so they can be counted before room is made. */
  packed(): Float64Array {
    let count = 0;
    for (let i = this.at; i < this.end; i++) if (this.bytes[i] < 128) count++;
    const values = new Float64Array(count);
    for (let i = 0; this.at < this.end; i++) values[i] = this.varint();
    return values;
  }
}

const FIELD_1 = (1 << 3) | 2, FIELD_2 = (2 << 3) | 2, FIELD_5 = (5 << 3) | 2; // all length-delimited
const READABLE = (100 << 3) | 2, INDEX = 1 << 3;

/** The bytes of a message. */
const bytesOf = (r: Reader): Uint8Array<ArrayBuffer> => r.bytes.slice(r.at, r.end) as Uint8Array<ArrayBuffer>;

/** The function that reads a field, by the field's tag. It gets the bytes of a part, or a reader that stands before the number. */
interface Fields { [tag: number]: (r: Reader) => void }

/** Walks over the fields of a message; what nobody reads is stepped over. */
function each(r: Reader, fields: Fields): void {
  while (r.at < r.end) {
    const tag = r.varint(), read = fields[tag];
    if (read) read(tag & 2 ? r.message() : r);
    else r.skip(tag & 7);
  }
}

/** Response { pprof 5 }, PprofProfile { profile 1 }: the profile as it is, nothing where nothing was found. */
export function readProfileResponse(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  let profile: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  each(new Reader(bytes, 0, bytes.length), {
    [FIELD_5]: (inner) => each(inner, {
      [FIELD_1]: (r) => {
        profile = bytesOf(r);
      },
    }),
  });
  return profile;
}

/**
 * Response { flamegraph 1 }, FlameGraph and FlameGraphDiff { names 1, levels 2, readable_names 100 }, Level { values 1,
 * packed }, ReadableName { index 1, text 2 }.
 */
export function readGraphResponse(bytes: Uint8Array): WireGraph {
  const graph: WireGraph = { names: [], levels: [], readable: [] };
  const readable = (part: Reader) => {
    let index = 0, text = '';
    each(part, {
      [INDEX]: (r) => {
        index = r.varint();
      },
      [FIELD_2]: (r) => {
        text = r.text();
      },
    });
    graph.readable.push([index, text]);
  };
  const level = (part: Reader) => {
    let values: Float64Array = new Float64Array(0);
    each(part, {
      [FIELD_1]: (r) => {
        values = r.packed();
      },
    });
    graph.levels.push(values);
  };
  const name = (r: Reader) => graph.names.push(r.text());
  each(new Reader(bytes, 0, bytes.length), { [FIELD_1]: (r) => each(r, { [FIELD_1]: name, [FIELD_2]: level, [READABLE]: readable }) });
  return graph;
}
