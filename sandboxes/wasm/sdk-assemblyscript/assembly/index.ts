// Retrieval programs in AssemblyScript. Build with `--runtime stub --use abort=`: a call is short,
// and its memory is dropped with it. See `sandboxes/wasm/wit/retrieval.wit` for the interface.

@external("agent", "take") declare function hostTake(into: usize): void;
@external("agent", "give") declare function hostGive(from: usize, length: usize): void;
@external("agent", "read") declare function hostRead(handle: u32, into: usize, bytes: usize): usize;
@external("agent", "print") declare function hostPrint(from: usize, length: usize): void;

/** Encodes values one after another, in the host's format. */
export class Writer {
  bytes: Uint8Array = new Uint8Array(256);
  length: i32 = 0;

  private room(more: i32): usize {
    if (this.length + more > this.bytes.length) {
      const larger = new Uint8Array((this.length + more) * 2);
      larger.set(this.bytes);
      this.bytes = larger;
    }
    const at = this.bytes.dataStart + this.length;
    this.length += more;
    return at;
  }

  private kind(kind: u8, number: u32): void {
    store<u8>(this.room(1), kind);
    store<u32>(this.room(4), number);
  }

  /** Starts a list of `count` values, which follow. */
  list(count: i32): Writer {
    this.kind(9, count);
    return this;
  }

  /** Starts a map of `count` entries; their names and values follow. */
  map(count: i32): Writer {
    this.kind(10, count);
    return this;
  }

  /** Writes the name of a map entry; its value follows. */
  name(text: string): Writer {
    const utf8 = Uint8Array.wrap(String.UTF8.encode(text));
    store<u32>(this.room(4), utf8.length);
    memory.copy(this.room(utf8.length), utf8.dataStart, utf8.length);
    return this;
  }

  text(text: string): Writer {
    store<u8>(this.room(1), 5);
    return this.name(text);
  }

  int(number: i64): Writer {
    store<u8>(this.room(1), 3);
    store<i64>(this.room(8), number);
    return this;
  }

  float(number: f64): Writer {
    store<u8>(this.room(1), 4);
    store<f64>(this.room(8), number);
    return this;
  }

  /** Writes a value that a tool returned, unchanged. */
  value(value: Value): Writer {
    memory.copy(this.room(value.bytes.length), value.bytes.dataStart, value.bytes.length);
    return this;
  }

  /** Writes pairs of node id and score; only as the result of a program. */
  ranking(ids: u32[], scores: f32[]): Writer {
    this.kind(13, ids.length);
    for (let i = 0; i < ids.length; i++) {
      store<u32>(this.room(4), ids[i]);
      store<f32>(this.room(4), scores[i]);
    }
    return this;
  }
}

/** An encoded value of the host: text, a number, or a handle of a value that the host holds. */
export class Value {
  constructor(public bytes: Uint8Array) {}

  private get kind(): u8 {
    return this.bytes[0];
  }

  get text(): string {
    return String.UTF8.decodeUnsafe(this.bytes.dataStart + 5, load<u32>(this.bytes.dataStart + 1));
  }

  get number(): f64 {
    if (this.kind == 3) return <f64>load<i64>(this.bytes.dataStart + 1);
    return load<f64>(this.bytes.dataStart + 1);
  }

  /** Number of nodes, scores or numbers behind a handle. */
  get length(): i32 {
    return load<u32>(this.bytes.dataStart + 5);
  }

  /** Content behind a handle: ids, pairs of id and score, or numbers; each has four bytes. */
  get content(): Uint8Array {
    const bytes = new Uint8Array(this.length * (this.kind == 7 ? 8 : 4));
    hostRead(load<u32>(this.bytes.dataStart + 1), bytes.dataStart, bytes.length);
    return bytes;
  }
}

/** Reads a message of the host of this length, in bytes. */
export function take(length: usize): Value {
  const bytes = new Uint8Array(<i32>length);
  hostTake(bytes.dataStart);
  return new Value(bytes);
}

/** Returns the written value to the host as the result. */
export function give(writer: Writer): void {
  hostGive(writer.bytes.dataStart, writer.length);
}

/** Returns a value of a tool to the host as the result. */
export function giveValue(value: Value): void {
  hostGive(value.bytes.dataStart, value.bytes.length);
}

/** Prints text for the author of the program. */
export function print(text: string): void {
  const utf8 = Uint8Array.wrap(String.UTF8.encode(text));
  hostPrint(utf8.dataStart, utf8.length);
}

/** Input of one call of the program. */
export class Input {
  query: string = "";
  candidates: u32[] = [];
  params: Map<string, f64> = new Map<string, f64>();

  static take(length: usize): Input {
    const bytes = take(length).bytes;
    const input = new Input();
    // A list of three: text, node ids, map.
    let at = bytes.dataStart + 6;
    let count = load<u32>(at);
    input.query = String.UTF8.decodeUnsafe(at + 4, count);
    at += 4 + count + 1;
    count = load<u32>(at);
    at += 4;
    for (let i: u32 = 0; i < count; i++, at += 4) input.candidates.push(load<u32>(at));
    at += 1;
    count = load<u32>(at);
    at += 4;
    for (let i: u32 = 0; i < count; i++) {
      const size = load<u32>(at);
      const name = String.UTF8.decodeUnsafe(at + 4, size);
      at += 4 + size;
      const whole = load<u8>(at) == 3;
      input.params.set(name, whole ? <f64>load<i64>(at + 1) : load<f64>(at + 1));
      at += 9;
    }
    return input;
  }
}
