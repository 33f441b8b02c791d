package check

import (
	"bufio"
	"cmp"
	"context"
	_ "embed" // init.yaml
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/targets"
)

//go:embed init.yaml
var firstFile string

// answers has the answers of the operator, from which the command writes a configuration file.
type answers struct {
	Service, URL, Variable, Page, Sitekey, Type, Owner string

	Name     string // of the target, from the page
	isScript bool   // the site key comes from the address of a script
	isClosed bool   // there is no further answer on stdin
}

// Init returns the command `poold init`.
func Init(c *cli.Console) *cobra.Command {
	a := new(answers)
	command := &cobra.Command{
		Use:   "init",
		Short: "write a first pools.yaml from six answers",
		Long: "Asks for what a first pools.yaml needs, and writes the file with comments if it is valid. A flag answers a\n" +
			"question. If the variable with the account's key is set, the key is tried; nothing is bought.",
		Example: "  poold init --config my-pools.yaml\n  poold init --service captchaai --owner qa@example.com",
		Args:    cobra.NoArgs,
	}
	config := cli.ConfigFlag(command, c)
	questions := []question{
		{"service", "solving `service`: " + strings.Join(targets.Services(), ", "), &a.Service},
		{"key-variable", "environment `variable` with the account's key", &a.Variable},
		{"page", "`address` of the page, such as https://staging.example.com/login", &a.Page},
		{"sitekey", "site `key`: data-sitekey=… in the source of the page, or render=… in the address of a script",
			&a.Sitekey},
		{"type", "`type`: " + strings.Join(targets.WordsOf(captcha.Types()), ", "), &a.Type},
		{"owner", "responsible `person` or team, such as qa@example.com", &a.Owner},
	}
	for _, q := range questions {
		command.Flags().StringVar(q.into, q.flag, "", q.help)
	}
	command.Flags().StringVar(&a.URL, "url", "", "`address` of the service, if it is not the usual one")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if _, err := os.Stat(*config); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s exists: remove it, or name another file by --config", *config))
		}
		defer context.AfterFunc(command.Context(), func() { os.Exit(130) })() // Ctrl-C does not end a read
		lines, faults := bufio.NewScanner(c.Stdin), ""
		for _, q := range questions {
			if fault := a.ask(c, lines, q); fault != "" {
				faults += "\n  --" + q.flag + ": " + fault
			}
		}
		if faults != "" {
			return cli.UsageError("nothing was written; correct these flags:" + faults)
		}
		return a.write(command.Context(), c, *config)
	}
	return command
}

// question is a question to the operator. A flag or a line of the input gives the answer.
type question struct {
	flag, help string
	into       *string
}

// ask repeats a question until the answer is valid. If the input ends first, ask returns what is wrong. No message
// quotes an answer, because the answer may be a key.
func (a *answers) ask(c *cli.Console, lines *bufio.Scanner, q question) (fault string) {
	usual, help := a.usual(q.flag), strings.ReplaceAll(q.help, "`", "")
	for {
		if a.isClosed {
			*q.into = cmp.Or(*q.into, usual)
		}
		fault = a.check(q.flag, *q.into)
		if fault == "" || a.isClosed {
			return fault
		}
		if *q.into != "" {
			_, _ = fmt.Fprintln(c.Stderr, fault)
		}
		_, _ = fmt.Fprintf(c.Stderr, "%s%s: ", help, strings.TrimSuffix(" ("+usual+")", " ()"))
		if a.isClosed = !lines.Scan(); a.isClosed {
			_, _ = fmt.Fprintln(c.Stderr)
		} else {
			*q.into = cmp.Or(strings.TrimSpace(lines.Text()), usual)
		}
	}
}

// check returns why an answer to the question of a flag is refused.
func (a *answers) check(flag, answer string) (fault string) {
	words := map[string][]string{"service": targets.Services(), "type": targets.WordsOf(captcha.Types())}[flag]
	switch {
	case answer == "":
		return "is missing"
	case words != nil && !slices.Contains(words, answer):
		meant := strings.TrimSuffix("; did you mean "+targets.Nearest(answer, words)+"?", "; did you mean ?")
		return "must be one of " + strings.Join(words, ", ") + meant
	case flag == "key-variable" && likeKey.MatchString(answer) && strings.ContainsAny(answer, "0123456789"):
		return "looks like the key itself: name the variable that has it"
	case flag == "key-variable" && !variable.MatchString(answer):
		return "must be the name of a variable, such as CAPTCHAAI_API_KEY, not the key: only capitals, digits and _, " +
			"without a $"
	case flag == "page" && !page.MatchString(answer):
		return "must be the whole address, without spaces: begin with https://"
	case flag == "sitekey":
		key := sitekey.FindStringSubmatch(answer)
		if key == nil {
			return "must be only the value of data-sitekey: 10 or more letters, digits, - and _, without a $"
		}
		a.isScript, a.Sitekey = key[1] == "render", key[2]
	}
	return ""
}

// OtherTypes lists the types that were not chosen, for the comment of the file.
func (a *answers) OtherTypes() string {
	return strings.Join(slices.DeleteFunc(targets.WordsOf(captcha.Types()), func(t string) bool { return t == a.Type }),
		", ")
}

var (
	variable   = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	likeKey    = regexp.MustCompile(`^[0-9A-Za-z-]{16,}$`)
	page       = regexp.MustCompile(`^https?://[^/\s]+\S*$`)
	sitekey    = regexp.MustCompile(`^(?:.*\b(render|sitekey)=)?["']?([\w-]{10,})["']?$`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// usual returns the default answer to the question of a flag; "" = the question has no default. For instance, the
// default type follows from the site key.
func (a *answers) usual(flag string) string {
	switch {
	case flag == "key-variable":
		return strings.NewReplacer("2", "TWO", "-", "_").Replace(strings.ToUpper(a.Service)) + "_API_KEY"
	case flag != "type":
		return ""
	case a.isScript:
		return string(captcha.RecaptchaV3)
	}
	fits := func(t captcha.Type) bool { return targets.OddSitekey(t, a.Sitekey) == "" }
	return string(captcha.Types()[max(0, slices.IndexFunc(captcha.Types(), fits))])
}

// write checks the new file and writes it. If the key of the account is known, it also tries the account.
func (a *answers) write(ctx context.Context, c *cli.Console, config string) error {
	a.Name = "first"
	if u, err := url.Parse(a.Page); err == nil && u.Host != "" {
		host, _, _ := strings.Cut(u.Hostname(), ".")
		name := notInNames.ReplaceAllString(strings.ToLower(host+u.Path), "-")
		a.Name = strings.Trim(name[:min(len(name), 40)], "-")
	}
	var text strings.Builder
	if err := template.Must(template.New("").Parse(firstFile)).Execute(&text, a); err != nil {
		return fmt.Errorf("writing the file: %w", err)
	}
	key := c.Env(a.Variable, "")
	set, err := targets.Parse(config, []byte(text.String()),
		targets.References{Variable: func(name string) (string, bool) {
			if name == a.Variable {
				return cmp.Or(key, "unset"), true
			}
			return c.Lookup(name)
		}})
	if err == nil {
		err = os.WriteFile(config, []byte(text.String()), 0o644) //nolint:gosec // G306: it holds no secret
	}
	if err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	p := &printer{Console: c}
	if err = cmp.Or(c.Print("wrote "+config), p.print(describe(set, config)...)); err != nil {
		return err
	}
	next := "next:\n"
	if key == "" {
		next += "  export " + a.Variable + "=…\n"
	} else if err = checkLive(ctx, p, set, nil); err != nil {
		return fmt.Errorf("%w; correct that (%s has the key), then `%s check --live --config %s`", err, a.Variable,
			os.Args[0], config)
	}
	return c.Print(next + "  " + os.Args[0] + " serve --config " + config + "\n  curl -s 'http://127.0.0.1:8080/pool/" +
		a.Name + "/token?wait=60s'")
}
