//! Reading a page of GDeflate.

use super::huffman::{Bits, Codes, END_OF_BLOCK, PRECODE_ORDER, Table, add_run, corrupt, distance_of, length_of, run_bits};
use super::{LANES, WORD};
use crate::failures::Outcome;

struct Lanes<'a> {
    words: std::slice::ChunksExact<'a, u8>,
    bits: [u64; LANES],
    left: [u32; LANES],
    lane: usize,
    /// The matches whose distance is still to be read: (length, destination).
    copies: [Option<(usize, usize)>; LANES],
}

impl Bits for Lanes<'_> {
    fn peek(&self) -> u32 {
        self.bits[self.lane] as u32
    }

    fn skip(&mut self, count: u32) -> Outcome {
        // A refilled lane has 32 bits, and no turn takes more.
        self.bits[self.lane] >>= count;
        self.left[self.lane] = self.left[self.lane].checked_sub(count).ok_or_else(|| corrupt("a lane runs dry"))?;
        Ok(())
    }
}

impl<'a> Lanes<'a> {
    fn new(page: &'a [u8]) -> Outcome<Lanes<'a>> {
        let mut lanes = Lanes { words: page.chunks_exact(4), bits: [0; LANES], left: [0; LANES], lane: 0, copies: [None; LANES] };
        for _ in 0..LANES {
            lanes.advance()?;
        }
        Ok(lanes)
    }

    fn refill(&mut self) -> Outcome {
        if self.left[self.lane] < WORD {
            let word = self.words.next().ok_or_else(|| corrupt("a page is cut short"))?;
            let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.bits[self.lane] |= word << self.left[self.lane];
            self.left[self.lane] += WORD;
        }
        Ok(())
    }

    fn advance(&mut self) -> Outcome {
        self.refill()?;
        self.lane = (self.lane + 1) % LANES;
        Ok(())
    }

    fn dynamic(&mut self) -> Outcome<Codes> {
        let (literals, distances, count) = (self.take(5)? as usize + 257, self.take(5)? as usize + 1, self.take(4)? as usize + 4);
        self.refill()?;
        let mut precode = [0; 19];
        for &symbol in &PRECODE_ORDER[..count] {
            precode[symbol] = self.take(3)? as u8;
            self.advance()?;
        }
        let precode = Table::new(&precode)?;
        let mut lengths = Vec::with_capacity(literals + distances + 138);
        self.lane = 0;
        while lengths.len() < literals + distances {
            let symbol = precode.read(self)?;
            let extra = self.take(run_bits(symbol))?;
            add_run(&mut lengths, symbol, extra)?;
            self.advance()?;
        }
        Codes::of(&lengths[..literals + distances], literals)
    }

    /// Makes the copy whose distance is next in this lane, if there is one.
    fn copy(&mut self, distances: &Table, out: &mut [u8]) -> Outcome<bool> {
        let Some((length, to)) = self.copies[self.lane].take() else { return Ok(false) };
        let (base, extra) = distance_of(distances.read(self)?);
        let distance = (base + self.take(extra)?) as usize;
        let from = to.checked_sub(distance).ok_or_else(|| corrupt("a match begins before its page"))?;
        if distance >= length {
            out.copy_within(from..from + length, to);
        } else {
            for at in 0..length {
                out[to + at] = out[from + at];
            }
        }
        Ok(true)
    }

    fn block(&mut self, codes: &Codes, out: &mut [u8], mut at: usize) -> Outcome<usize> {
        self.lane = 0;
        loop {
            if !self.copy(&codes.1, out)? {
                let symbol = codes.0.read(self)?;
                if symbol < END_OF_BLOCK {
                    *out.get_mut(at).ok_or_else(|| corrupt("a page is too long"))? = symbol as u8;
                    at += 1;
                } else if symbol == END_OF_BLOCK {
                    break;
                } else {
                    let (base, extra) = length_of(symbol, (3, 16))?;
                    let length = (base + self.take(extra)?) as usize;
                    if length > out.len() - at {
                        return Err(corrupt("a page is too long"));
                    }
                    self.copies[self.lane] = Some((length, at));
                    at += length;
                }
            }
            self.advance()?;
        }
        for _ in 0..LANES {
            self.copy(&codes.1, out)?;
            self.advance()?;
        }
        Ok(at)
    }

    fn stored(&mut self, out: &mut [u8], at: usize) -> Outcome<usize> {
        let length = self.take(16)? as usize;
        let bytes = out.get_mut(at..at + length).ok_or_else(|| corrupt("a page is too long"))?;
        for byte in bytes {
            *byte = self.take(8)? as u8;
            self.advance()?;
        }
        Ok(at + length)
    }
}

pub fn decode_page(page: &[u8], out: &mut [u8]) -> Outcome {
    let mut lanes = Lanes::new(page)?;
    let mut at = 0;
    loop {
        lanes.lane = 0;
        let last = lanes.take(1)? == 1;
        let kind = lanes.take(2)?;
        lanes.refill()?;
        at = match kind {
            0 => lanes.stored(out, at)?,
            1 => lanes.block(&Codes::fixed()?, out, at)?,
            2 => {
                let codes = lanes.dynamic()?;
                lanes.block(&codes, out, at)?
            }
            _ => return Err(corrupt("a block of a kind that does not exist")),
        };
        if last {
            break;
        }
    }
    if at != out.len() {
        return Err(corrupt("a page is too short"));
    }
    Ok(())
}
