//! What reading and writing a page of GDeflate have in common: the turns of the lanes, and the sequence of blocks.

use super::huffman::{Bits, Codes, corrupt};
use super::{LANES, WORD};
use crate::failures::Outcome;

/// The lane of the next symbol, and for each lane the bits that a decoder has of it.
#[derive(Default)]
pub struct Turn {
    pub lane: usize,
    pub left: [u32; LANES],
}

/// A page that is decoded from its lanes, or whose bits move from a DEFLATE stream to lanes.
pub trait Page: Bits + Sized {
    fn turn(&mut self) -> &mut Turn;

    /// The next word of the page is the next one of this lane.
    fn next_word(&mut self) -> Outcome;

    /// The symbols of a block.
    fn block(&mut self, codes: &Codes) -> Outcome;

    /// A block of bytes that are not encoded.
    fn stored(&mut self) -> Outcome;

    fn refill(&mut self) -> Outcome {
        let turn = self.turn();
        if turn.left[turn.lane] < WORD {
            self.next_word()?;
            let turn = self.turn();
            turn.left[turn.lane] += WORD;
        }
        Ok(())
    }

    fn advance(&mut self) -> Outcome {
        self.refill()?;
        let turn = self.turn();
        turn.lane = (turn.lane + 1) % LANES;
        Ok(())
    }

    fn blocks(&mut self) -> Outcome {
        for _ in 0..LANES {
            self.advance()?;
        }
        loop {
            self.turn().lane = 0;
            let last = self.take(1)? == 1;
            let kind = self.take(2)?;
            self.refill()?;
            match kind {
                0 => self.stored()?,
                1 => self.block(&Codes::fixed()?)?,
                2 => {
                    let codes = Codes::read(self)?;
                    self.turn().lane = 0;
                    self.block(&codes)?;
                }
                _ => return Err(corrupt("a block of a kind that does not exist")),
            }
            if last {
                return Ok(());
            }
        }
    }
}
