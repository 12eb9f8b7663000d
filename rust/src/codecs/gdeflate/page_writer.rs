//! Writing a page of GDeflate: the symbols of a DEFLATE stream, distributed over the lanes.

use super::huffman::{Bits, Codes, END_OF_BLOCK, LAST_LENGTH, PRECODE_ORDER, Table, add_run, corrupt, distance_of, length_of, run_bits};
use super::{LANES, WORD};
use crate::failures::Outcome;

/// The data for a decoder: the bits of each lane, and the lanes in the order in which it refills them.
struct LaneWriter {
    bits: [Vec<u32>; LANES],
    used: [u32; LANES],
    left: [u32; LANES],
    order: Vec<u8>,
    lane: usize,
    distances: [Option<(u32, u32)>; LANES],
}

impl LaneWriter {
    fn new() -> LaneWriter {
        let mut lanes = LaneWriter {
            bits: [const { Vec::new() }; LANES],
            used: [0; LANES],
            left: [0; LANES],
            order: Vec::new(),
            lane: 0,
            distances: [None; LANES],
        };
        for _ in 0..LANES {
            lanes.advance();
        }
        lanes
    }

    fn refill(&mut self) {
        if self.left[self.lane] < WORD {
            self.order.push(self.lane as u8);
            self.left[self.lane] += WORD;
        }
    }

    fn advance(&mut self) {
        self.refill();
        self.lane = (self.lane + 1) % LANES;
    }

    fn put(&mut self, bits: u32, count: u32) {
        let (words, used) = (&mut self.bits[self.lane], &mut self.used[self.lane]);
        let shift = *used % WORD;
        let wide = u64::from(bits) << shift;
        if shift == 0 {
            words.push(0);
        }
        *words.last_mut().expect("a lane in use has a word") |= wide as u32;
        if shift + count > WORD {
            words.push((wide >> WORD) as u32);
        }
        *used += count;
        self.left[self.lane] -= count;
    }

    fn put_code(&mut self, table: &Table, symbol: u32) {
        let (code, length) = table.codes[symbol as usize];
        self.put(u32::from(code), u32::from(length));
    }

    /// Writes the pending distance of this lane. Returns whether there was one.
    fn settle(&mut self) -> bool {
        let Some((bits, count)) = self.distances[self.lane].take() else { return false };
        self.put(bits, count);
        true
    }

    /// Advances to a lane without a pending distance.
    fn next_free(&mut self) {
        while self.settle() {
            self.advance();
        }
    }

    fn finish(self, out: &mut Vec<u8>) {
        let mut taken = [0; LANES];
        for &lane in &self.order {
            let lane = lane as usize;
            out.extend(self.bits[lane].get(taken[lane]).copied().unwrap_or(0).to_le_bytes());
            taken[lane] += 1;
        }
    }
}

/// The symbols of a DEFLATE stream from libdeflate.
struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits for Stream<'_> {
    fn peek(&self) -> u32 {
        let bytes = self.bytes.get(self.at / 8..).unwrap_or_default();
        let wide = bytes.iter().take(5).rev().fold(0, |wide: u64, &byte| wide << 8 | u64::from(byte));
        (wide >> (self.at % 8)) as u32
    }

    fn skip(&mut self, count: u32) -> Outcome {
        self.at += count as usize;
        if self.at > 8 * self.bytes.len() { Err(corrupt("the stream ends early")) } else { Ok(()) }
    }
}

impl Stream<'_> {
    fn moved(&mut self, lanes: &mut LaneWriter, count: u32) -> Outcome<u32> {
        let bits = self.take(count)?;
        if count > 0 {
            lanes.put(bits, count);
        }
        Ok(bits)
    }

    fn dynamic(&mut self, lanes: &mut LaneWriter) -> Outcome<Codes> {
        let literals = self.moved(lanes, 5)? as usize + 257;
        let distances = self.moved(lanes, 5)? as usize + 1;
        let count = self.moved(lanes, 4)? as usize + 4;
        lanes.refill();
        let mut precode = [0; 19];
        for &symbol in &PRECODE_ORDER[..count] {
            precode[symbol] = self.moved(lanes, 3)? as u8;
            lanes.advance();
        }
        let precode = Table::new(&precode)?;
        let mut lengths = Vec::new();
        lanes.lane = 0;
        while lengths.len() < literals + distances {
            let symbol = precode.read(self)?;
            lanes.put_code(&precode, symbol);
            let extra = self.moved(lanes, run_bits(symbol))?;
            add_run(&mut lengths, symbol, extra)?;
            lanes.advance();
        }
        Codes::of(&lengths[..literals + distances], literals)
    }

    fn block(&mut self, codes: &Codes, lanes: &mut LaneWriter) -> Outcome {
        lanes.lane = 0;
        loop {
            let symbol = codes.0.read(self)?;
            lanes.next_free();
            lanes.put_code(&codes.0, symbol);
            if symbol == END_OF_BLOCK {
                break;
            }
            if symbol > END_OF_BLOCK {
                if symbol == LAST_LENGTH {
                    lanes.put(258 - 3, 16);
                } else {
                    self.moved(lanes, length_of(symbol, (258, 0))?.1)?;
                }
                let distance = codes.1.read(self)?;
                let (code, length) = codes.1.codes[distance as usize];
                let extra = distance_of(distance).1;
                let bits = self.take(extra)? << length | u32::from(code);
                lanes.distances[lanes.lane] = Some((bits, u32::from(length) + extra));
            }
            lanes.advance();
        }
        for _ in 0..LANES {
            lanes.settle();
            lanes.advance();
        }
        Ok(())
    }

    fn stored(&mut self, lanes: &mut LaneWriter) -> Outcome {
        self.at = self.at.next_multiple_of(8);
        let length = self.moved(lanes, 16)?;
        self.skip(16)?;
        for _ in 0..length {
            self.moved(lanes, 8)?;
            lanes.advance();
        }
        Ok(())
    }
}

pub fn encode_page(deflated: &[u8], out: &mut Vec<u8>) -> Outcome {
    let (mut stream, mut lanes) = (Stream { bytes: deflated, at: 0 }, LaneWriter::new());
    loop {
        lanes.lane = 0;
        let last = stream.moved(&mut lanes, 1)? == 1;
        let kind = stream.moved(&mut lanes, 2)?;
        lanes.refill();
        match kind {
            0 => stream.stored(&mut lanes)?,
            1 => stream.block(&Codes::fixed()?, &mut lanes)?,
            _ => {
                let codes = stream.dynamic(&mut lanes)?;
                stream.block(&codes, &mut lanes)?;
            }
        }
        if last {
            lanes.finish(out);
            return Ok(());
        }
    }
}
