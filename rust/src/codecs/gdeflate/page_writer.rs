//! Writing a page of GDeflate: the symbols of a DEFLATE stream, distributed over the lanes.

use super::huffman::{Bits, Codes, END_OF_BLOCK, LAST_LENGTH, corrupt, distance_of, length_of};
use super::lanes::{Page, Turn};
use super::{LANES, WORD};
use crate::failures::Outcome;

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

/// The data for a decoder: the bits of each lane, and the lanes in the order in which it refills them.
struct Writer<'a> {
    from: Stream<'a>,
    bits: [Vec<u32>; LANES],
    used: [u32; LANES],
    turn: Turn,
    order: Vec<u8>,
    distances: [Option<(u32, u32)>; LANES],
}

/// Bits that are passed move to the lane.
impl Bits for Writer<'_> {
    fn peek(&self) -> u32 {
        self.from.peek()
    }

    fn skip(&mut self, count: u32) -> Outcome {
        let bits = self.from.take(count)?;
        self.put(bits, count);
        Ok(())
    }
}

impl Writer<'_> {
    fn put(&mut self, bits: u32, count: u32) {
        if count == 0 {
            return;
        }
        let lane = self.turn.lane;
        let (words, shift) = (&mut self.bits[lane], self.used[lane] % WORD);
        let wide = u64::from(bits) << shift;
        if shift == 0 {
            words.push(0);
        }
        *words.last_mut().expect("a lane in use has a word") |= wide as u32;
        if shift + count > WORD {
            words.push((wide >> WORD) as u32);
        }
        self.used[lane] += count;
        self.turn.left[lane] -= count;
    }

    /// Writes the pending distance of this lane. Returns whether there was one.
    fn settle(&mut self) -> bool {
        let Some((bits, count)) = self.distances[self.turn.lane].take() else { return false };
        self.put(bits, count);
        true
    }
}

impl Page for Writer<'_> {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn next_word(&mut self) -> Outcome {
        self.order.push(self.turn.lane as u8);
        Ok(())
    }

    fn block(&mut self, codes: &Codes) -> Outcome {
        loop {
            while self.settle() {
                self.advance()?;
            }
            let symbol = codes.0.read(self)?;
            if symbol == END_OF_BLOCK {
                break;
            }
            if symbol > END_OF_BLOCK {
                self.take(length_of(symbol, (258, 0))?.1)?;
                if symbol == LAST_LENGTH {
                    self.put(258 - 3, 16);
                }
                let (bits, start) = (self.from.peek(), self.from.at);
                let extra = distance_of(codes.1.read(&mut self.from)?).1;
                self.from.skip(extra)?;
                let count = (self.from.at - start) as u32;
                self.distances[self.turn.lane] = Some((bits & ((1 << count) - 1), count));
            }
            self.advance()?;
        }
        for _ in 0..LANES {
            self.settle();
            self.advance()?;
        }
        Ok(())
    }

    fn stored(&mut self) -> Outcome {
        self.from.at = self.from.at.next_multiple_of(8);
        let length = self.take(16)?;
        self.from.skip(16)?;
        for _ in 0..length {
            self.take(8)?;
            self.advance()?;
        }
        Ok(())
    }
}

pub fn encode_page(deflated: &[u8], out: &mut Vec<u8>) -> Outcome {
    let mut writer = Writer {
        from: Stream { bytes: deflated, at: 0 },
        bits: [const { Vec::new() }; LANES],
        used: [0; LANES],
        turn: Turn::default(),
        order: Vec::new(),
        distances: [None; LANES],
    };
    writer.blocks()?;
    let mut lanes = writer.bits.map(Vec::into_iter);
    for lane in writer.order {
        out.extend(lanes[lane as usize].next().unwrap_or(0).to_le_bytes());
    }
    Ok(())
}
