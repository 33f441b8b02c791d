package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"poold/internal/cli"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the reference part of docs/cli.md anew")

// bareRoot returns the tree of commands in an empty environment.
func bareRoot() *cobra.Command {
	return commands().Root(&cli.Console{Lookup: func(string) (string, bool) { return "", false }})
}

// allCommands returns the commands that the help lists, without the root.
func allCommands(command *cobra.Command) (list []*cobra.Command) {
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			list = append(append(list, below), allCommands(below)...)
		}
	}
	return list
}

// For a mistake on the command line poold prints one line, with the nearest valid name, and ends with
// the exit code 2.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"tokn":                           `poold: there is no command "tokn"; did you mean token?`,
		"STATUS":                         `poold: there is no command "STATUS"; did you mean status?`,
		"xyz":                            `poold: there is no command "xyz"`,
		"--listen 127.0.0.1:1 chek":      `poold: there is no command "chek"; did you mean check?`,
		"-config x":                      "poold: a flag has two dashes: --config",
		"-config=x check":                "poold check: a flag has two dashes: --config",
		"check -config x":                "poold check: a flag has two dashes: --config",
		"status -help":                   "poold status: a flag has two dashes: --help",
		"simulate -hit-rate 0.9":         "poold simulate: a flag has two dashes: --hit-rate",
		"check -confg x":                 "poold check: check has no -confg; did you mean --config?",
		"check --confg x":                "poold check: check has no --confg; did you mean --config?",
		"check --zzz":                    "poold check: check has no --zzz",
		"check -z":                       "poold check: check has no -z",
		"--zzz":                          "poold: poold has no --zzz",
		"check --config":                 "poold check: flag needs an argument: --config",
		"check --live=maybe":             `poold check: invalid value "maybe" for flag --live: must be true or false`,
		"token login --wait 20x":         `poold token: invalid value "20x" for flag --wait: must be a duration such as 20s; a number alone is seconds`,
		"simulate --fail x":              `poold simulate: invalid value "x" for flag --fail: must be a number`,
		"help tokn":                      `poold help: there is no command "tokn"; did you mean token?`,
		"help history sit":               `poold help: there is no command "sit"; did you mean site?`,
		"history sit":                    `poold history: needs one of the words active, day, init, key, site, solve, tasks, usage and does not know "sit"; did you mean site?`,
		"completion":                     "poold completion: needs the name of a shell: bash, zsh or fish",
		"completion powershell":          `poold completion: needs the name of a shell, bash, zsh or fish, not "powershell"`,
		"pause":                          "poold pause: needs the name of a target",
		"flush a b":                      `poold flush: unexpected argument "b"`,
		"report":                         "poold report: needs the id of a token",
		"report id":                      "poold report: needs the word accepted or rejected",
		"report login id good":           `poold report: the last word is accepted or rejected, not "good"`,
		"report login id accepted twice": `poold report: unexpected argument "twice"`,
		"status [":                       `poold status: a GLOB has *, ? and [a-z], and "[" is none`,
		"status --state starvd":          `poold status: --state is one of refused, starved, budget, paused, ok, idle, not "starvd"; did you mean starved?`,
		"status --state=":                `poold status: --state is one of refused, starved, budget, paused, ok, idle, not ""`,
		"token login\x1b[2J more":        `poold token: unexpected argument "more"`,
		"token login \x1b[2J":            `poold token: unexpected argument "\x1b[2J"`,
	} {
		code, stdout, stderr := runCommand(t, nil, strings.Fields(args)...)
		if code != exitUsage || stdout != "" || stderr != want+"\n" {
			t.Errorf("%s: exit %d\n%s%swant %s", args, code, stdout, stderr, want)
		}
	}
}

// The help of every command has examples of the command, which use only existing flags. It
// describes each flag.
func TestHelpOfEveryCommand(t *testing.T) {
	commands := allCommands(bareRoot())
	if len(commands) < 25 {
		t.Fatalf("there are %d commands", len(commands))
	}
	for _, command := range commands {
		path := strings.Fields(command.CommandPath())[1:]
		code, help, stderr := runCommand(t, nil, append([]string{"help"}, path...)...)
		if _, asked, _ := runCommand(t, nil, append(path, "--help")...); code != 0 || stderr != "" || asked != help {
			t.Errorf("%v: exit %d: %s; --help says something else than help", path, code, stderr)
		}
		if !strings.HasPrefix(help, "usage: "+command.CommandPath()) {
			t.Errorf("%v: %s", path, help)
		}
		for _, line := range strings.Split(help, "\n") {
			if len([]rune(line)) > 120 {
				t.Errorf("%v: a line of %d letters: %s", path, len([]rune(line)), line)
			}
		}
		if command.HasSubCommands() {
			continue
		}
		examples := strings.Split(command.Example, "\n")
		for _, example := range examples {
			if !strings.HasPrefix(example, "  "+command.CommandPath()) {
				t.Errorf("%v: the example %q is of another command", path, example)
			}
			for _, name := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(example, -1) {
				if command.Flags().Lookup(name[1]) == nil {
					t.Errorf("%v: the example %q has another flag", path, example)
				}
			}
		}
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Usage) < 5 {
				t.Errorf("%v --%s: %q", path, f.Name, f.Usage)
			}
		})
	}
}

// helpOf returns what `poold help` prints about a command.
func helpOf(t *testing.T, command *cobra.Command) string {
	t.Helper()
	_, help, _ := runCommand(t, nil, append([]string{"help"}, strings.Fields(command.CommandPath())[1:]...)...)
	return help
}

// referenceOf returns the help of a command without the flags that are among common. It also
// returns the command's flags.
func referenceOf(t *testing.T, command *cobra.Command, common []string) (text string, flags []string) {
	t.Helper()
	text, list, _ := strings.Cut(helpOf(t, command), "\nflags:\n")
	kept := ""
	for _, entry := range regexp.MustCompile(`(?m)^      --.*\n(?:        .*\n)*`).FindAllString(list, -1) {
		flags = append(flags, strings.Join(strings.Fields(entry), " "))
		if !slices.Contains(common, flags[len(flags)-1]) {
			kept += entry
		}
	}
	if kept != "" {
		text += "\nflags:\n" + kept
	}
	return text, flags
}

// The reference in docs/cli.md equals the help texts of the commands that do something. Only poold history site shows
// the flags that other commands have too. The flag -update writes this reference.
func TestReference(t *testing.T) {
	const mark = "<!-- The rest of this page is generated: go test ./cmd/poold -run TestReference -update -->\n"
	page := filepath.Join("..", "..", "docs", "cli.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no line %s", page, mark)
	}
	reference := strings.Builder{}
	var common []string
	commands := allCommands(bareRoot())
	for _, command := range commands {
		if command.CommandPath() == "poold history site" {
			_, common = referenceOf(t, command, nil)
		}
	}
	for _, command := range commands {
		if command.HasSubCommands() {
			continue
		}
		except := common
		if command.CommandPath() == "poold history site" {
			except = nil
		}
		text, _ := referenceOf(t, command, except)
		reference.WriteString("\n### " + command.CommandPath() + "\n\n```text\n" + text + "```\n")
	}
	want := written + mark + reference.String()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && string(text) != want {
		t.Errorf("%s is not what the commands say; write it with -update", page)
	}
}

// Completion offers commands, flags, values of flags and the targets of the running daemon. It offers
// only valid names.
func TestCompletion(t *testing.T) {
	const document = `{"targets":[{"name":"staging-login"},{"name":"staging-$(reboot)"},{"name":"prod"},{"name":"s\u001b[2J"}]}`
	complete := func(words ...string) []string {
		t.Helper()
		printed, code, _ := askDaemon(t, 200, document, append([]string{"__complete"}, words...)...)
		if code != 0 {
			t.Errorf("%v: exit %d: %s", words, code, printed)
		}
		offered, _, _ := strings.Cut(printed, ":")
		return strings.Fields(offered)
	}
	for words, want := range map[string][]string{
		"token st":                  {"staging-login"},
		"pause --reason x st":       {"staging-login"},
		"report staging-login id a": {"accepted"},
		"status --state st":         {"refused", "starved", "budget", "paused", "ok", "idle"},
		"serve --log-format t":      {"text", "json"},
		"help history us":           {"usage"},
		"token prod st":             nil,
	} {
		if got := complete(strings.Fields(words)...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", words, got, want)
		}
	}
	if all := complete("token", ""); !slices.Equal(all, []string{"staging-login", "prod"}) {
		t.Errorf("targets: %v", all)
	}
	if offered := strings.Join(complete("res"), " "); !strings.HasPrefix(offered, "resume end a pause") {
		t.Errorf("commands: %s", offered)
	}
	if offered := strings.Join(complete("token", "--mi"), " "); !strings.HasPrefix(offered, "--min-ttl take") {
		t.Errorf("flags: %s", offered)
	}
	_, refused, _ := runCommand(t, map[string]string{"POOLD_URL": "http://127.0.0.1:1"}, "__complete", "token", "")
	if refused != ":4\n" {
		t.Errorf("without a daemon %q is offered", refused)
	}
	for shell, part := range map[string]string{"bash": "__start_poold", "zsh": "#compdef poold", "fish": "complete -c poold"} {
		if code, script, stderr := runCommand(t, nil, "completion", shell); code != 0 || !strings.Contains(script, part) {
			t.Errorf("%s: exit %d: %s", shell, code, stderr)
		}
	}
}

// Each command has a man page with its flags.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	here := map[string]string{"POOLD_URL": "http://here.example.com", "POOLD_CONFIG": "/here.yaml"}
	if code, stdout, stderr := runCommand(t, here, "man", dir); code != 0 || stdout != "the man pages are in "+dir+"\n" {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	for _, command := range allCommands(bareRoot()) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(command.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.Contains(string(page), "here.example.com") || strings.Contains(string(page), "/here.yaml") {
			t.Errorf("the page of %s has the environment of who made it", command.CommandPath())
		}
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "--"+f.Name) {
				t.Errorf("the page of %s has no --%s", command.CommandPath(), f.Name)
			}
		})
	}
	if code, _, stderr := runCommand(t, nil, "man", filepath.Join(dir, "poold.1")); code != exitFailed || !strings.Contains(stderr, "not a directory") {
		t.Errorf("a file: exit %d: %s", code, stderr)
	}
}
