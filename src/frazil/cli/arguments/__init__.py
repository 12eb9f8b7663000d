"""Arguments that several commands share: locations, selections, values, layouts of arrays, --decoded. They become arrays, groups, windows and numbers.

Arguments of one command are in its file in commands/; small types of numbers and the help of parsers are in command.py."""
