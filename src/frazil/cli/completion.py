"""Scripts that make bash, zsh and fish complete command lines of a program, generated from its argparse parser: commands, options, choices, and files for
locations.

Nothing is printed here; commands/completion.py prints them."""

from __future__ import annotations

from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from frazil.base.record import Record

# metavars of arguments that are completed with files and folders; URLs are typed
_FILES: Final = frozenset({"LOCATION", "SOURCE", "DESTINATION", "FILE", "FOLDER", "PATH"})


class _Argument(Record):
    """options: its spellings, none for a positional one; value: its metavar, "" for a flag; words: its choices"""

    options: tuple[str, ...]
    value: str
    words: tuple[str, ...]
    help: str

    @property
    def is_file(self) -> bool:
        return self.value in _FILES


class _Node(Record):
    """A program, group of commands or command. commands: those below it, by their last word, each with its summary"""

    words: tuple[str, ...]
    commands: Mapping[str, str]
    arguments: tuple[_Argument, ...]

    @property
    def options(self) -> list[_Argument]:
        return [argument for argument in self.arguments if argument.options]

    @property
    def positional(self) -> list[_Argument]:
        return [argument for argument in self.arguments if not argument.options]


def _nodes(parser: ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[_Node]:
    """The program, and all commands below it, parents first."""
    groups = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    below = {name: choice for group in groups for name, choice in group.choices.items()}
    summaries = {each.dest: each.help or "" for group in groups for each in group._choices_actions}
    arguments = tuple(_argument(action) for action in parser._actions if action not in groups)
    yield _Node(words, {name: summaries.get(name, "") for name in below}, arguments)
    for name, choice in below.items():
        yield from _nodes(choice, (*words, name))


def _argument(action: Action) -> _Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    takes_value = action.nargs != 0
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    text = (action.help or "").replace("%%", "%")
    return _Argument(tuple(action.option_strings), metavar if takes_value else "", choices, text)


def _quoted(text: str) -> str:
    """A text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


# --- bash ------------------------------------------------------------------------------------------------------------------------------


def bash(parser: ArgumentParser) -> str:
    """A script for bash 3.2 and newer: `eval "$(frazil completion bash)"`."""
    program, nodes = parser.prog, list(_nodes(parser))
    paths = [" ".join(node.words) for node in nodes if node.words]
    lines = [
        f"_{program}() {{",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= word words= files= i IFS=$' \\t\\n'",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        "        word=${COMP_WORDS[i]}",
        '        case "${command:+$command }$word" in',
        f"            {'|'.join(map(_quoted, paths))}) command=${{command:+$command }}$word ;;",
        "        esac",
        "    done",
        '    case "$command:$prev" in',
    ]
    for node in nodes:
        for option in node.options:
            if option.value:
                spelled = "|".join(_quoted(f"{' '.join(node.words)}:{name}") for name in option.options)
                lines.append(f"        {spelled}) {_bash_values([option])} ;;")
    lines += ["        *)", '            case "$command:$cur" in']
    for node in nodes:
        names = " ".join(name for option in node.options for name in option.options)
        words = " ".join(node.words)
        lines.append(f"                {_quoted(words + ':')}-*) words={_quoted(names)} ;;")
        values = f"words={_quoted(' '.join(node.commands))}" if node.commands else _bash_values(node.positional)
        lines.append(f"                {_quoted(words + ':')}*) {values} ;;")
    lines += [
        "            esac",
        "            ;;",
        "    esac",
        "    COMPREPLY=()",
        '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi',
        '    if [ -n "$files" ]; then',
        "        IFS=$'\\n'",
        "        compopt -o filenames 2>/dev/null",
        '        COMPREPLY+=($(compgen -f -- "$cur"))',
        "    fi",
        "}",
        f"complete -F _{program} {program}",
    ]
    return "\n".join(lines)


def _bash_values(arguments: list[_Argument]) -> str:
    words = " ".join(word for argument in arguments for word in argument.words)
    parts = [f"words={_quoted(words)}"] if words else []
    parts += ["files=1"] if any(argument.is_file for argument in arguments) else []
    return " ".join(parts) or ":"


# --- zsh -------------------------------------------------------------------------------------------------------------------------------


def zsh(parser: ArgumentParser) -> str:
    """A script for zsh: `source <(frazil completion zsh)`, after compinit; or a file `_frazil` in a folder of $fpath."""
    program = parser.prog
    lines = [f"#compdef {program}"]
    for node in reversed(list(_nodes(parser))):
        specs = [_quoted(spec) for option in node.options for spec in _zsh_options(option)]
        if node.commands:
            listed = " ".join(f"{name}\\:{_zsh_text(summary)!r}" for name, summary in node.commands.items())
            specs += [_quoted(f"1:command:(({listed}))"), "'*::argument:->below'"]
        else:
            specs += [_quoted(f":{_zsh_text(argument.value)}:{_zsh_values(argument)}") for argument in node.positional]
        lines += [f"{_zsh_name(program, node.words)}() {{", "    local state line", "    _arguments -C \\"]
        lines.append(" \\\n".join(f"        {spec}" for spec in specs))
        if node.commands:
            lines += ["    [[ $state == below ]] || return", "    case $line[1] in"]
            lines += [f"        {name}) {_zsh_name(program, (*node.words, name))} ;;" for name in node.commands]
            lines.append("    esac")
        lines.append("}")
    lines.append(f'if [ "$funcstack[1]" = "_{program}" ]; then _{program} "$@"; else compdef _{program} {program}; fi')
    return "\n".join(lines)


def _zsh_name(program: str, words: tuple[str, ...]) -> str:
    return "_".join(["", program, *words])


def _zsh_options(option: _Argument) -> Iterator[str]:
    for name in option.options:
        value = f":{_zsh_text(option.value)}:{_zsh_values(option)}" if option.value else ""
        yield f"*{name}[{_zsh_text(option.help)}]{value}"


def _zsh_values(argument: _Argument) -> str:
    if argument.words:
        return f"({' '.join(argument.words)})"
    return "_files" if argument.is_file else " "


def _zsh_text(text: str) -> str:
    for sign in ("\\", "[", "]", ":", '"', "`", "$", "'", "(", ")"):
        text = text.replace(sign, "" if sign in "\"`$'()\\" else f"\\{sign}")
    return " ".join(text.split())


# --- fish ------------------------------------------------------------------------------------------------------------------------------


def fish(parser: ArgumentParser) -> str:
    """A script for fish: `frazil completion fish | source`."""
    program = parser.prog
    lines = [f"complete -c {program} -f"]
    for node in _nodes(parser):
        start = f"complete -c {program} -n {_quoted(_fish_condition(node))}"
        lines += [f"{start} -a {name} -d {_fish_text(summary)}" for name, summary in node.commands.items()]
        for option in node.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.options)
            values = (
                f" -x -a {_quoted(' '.join(option.words))}" if option.words else " -r -F" if option.is_file else " -x"
            )
            lines.append(f"{start} {names}{values if option.value else ''} -d {_fish_text(option.help)}")
        words = [word for argument in node.positional for word in argument.words]
        lines += [f"{start} -a {_quoted(' '.join(words))}"] if words else []
        lines += [f"{start} -F"] if any(argument.is_file for argument in node.positional) else []
    return "\n".join(lines)


def _fish_condition(node: _Node) -> str:
    conditions = [f"__fish_seen_subcommand_from {word}" for word in node.words]
    if node.commands:
        conditions.append(f"not __fish_seen_subcommand_from {' '.join(node.commands)}")
    return "; and ".join(conditions)


def _fish_text(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: Final[dict[str, Callable[[ArgumentParser], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
