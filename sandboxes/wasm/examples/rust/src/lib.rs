//! Finds described products of a brand: follows the brand that the query names to its products,
//! then ranks them by the other words of the query.
#![no_std]

use retrieval::{Declare, Input, Value};

retrieval::program!(params, retrieve);
retrieval::tools!(link, hop, without_names, match_text, normalize, top, op_add, op_mul);

fn params(declare: &mut Declare) {
    declare.int("k", 20, 1, 100);
    declare.float("w_text", 2.0, 0.0, 4.0);
}

fn retrieve(input: &Input) -> Value {
    let brand = link(&[input.query().into(), "brand".into(), 1i64.into()]);
    let products = hop(&[(&brand).into(), "has_brand".into(), "in".into()]);
    let wish = without_names(&[input.query().into(), (&brand).into()]);
    let by_text = normalize(&[(&match_text(&[(&wish).into(), (&products).into()])).into()]);
    let by_text = op_mul(&[(&by_text).into(), input.float("w_text").into()]);
    let score = op_add(&[(&normalize(&[(&products).into()])).into(), (&by_text).into()]);
    top(&[(&score).into(), input.int("k").into()])
}
