// Finds described products of a brand: follows the brand that the query names to its products,
// then ranks them by the other words of the query.

import { Input, Value, Writer, give, giveValue, take } from "../../sdk-assemblyscript/assembly/index";

@external("tools", "link") declare function link(from: usize, length: usize): usize;
@external("tools", "hop") declare function hop(from: usize, length: usize): usize;
@external("tools", "without_names") declare function withoutNames(from: usize, length: usize): usize;
@external("tools", "match_text") declare function matchText(from: usize, length: usize): usize;
@external("tools", "normalize") declare function normalize(from: usize, length: usize): usize;
@external("tools", "top") declare function top(from: usize, length: usize): usize;
@external("tools", "op_add") declare function add(from: usize, length: usize): usize;
@external("tools", "op_mul") declare function mul(from: usize, length: usize): usize;

type Tool = (from: usize, length: usize) => usize;

function call(tool: Tool, args: Writer): Value {
  return take(tool(args.bytes.dataStart, args.length));
}

function args(count: i32): Writer {
  return new Writer().list(count);
}

export function params(): void {
  give(
    new Writer().map(2)
      .name("k").map(3).name("value").int(20).name("min").int(1).name("max").int(100)
      .name("w_text").map(3).name("value").float(2).name("min").float(0).name("max").float(4)
  );
}

export function retrieve(length: usize): void {
  const input = Input.take(length);
  const brand = call(link, args(3).text(input.query).text("brand").int(1));
  const products = call(hop, args(3).value(brand).text("has_brand").text("in"));
  const wish = call(withoutNames, args(2).text(input.query).value(brand));
  const matched = call(matchText, args(2).value(wish).value(products));
  const byText = call(normalize, args(1).value(matched));
  const weighed = call(mul, args(2).value(byText).float(input.params.get("w_text")));
  const score = call(add, args(2).value(call(normalize, args(1).value(products))).value(weighed));
  giveValue(call(top, args(2).value(score).int(<i64>input.params.get("k"))));
}
