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

// answers has the values of a first file.
type answers struct {
	Service, Variable, Page, Sitekey, Type, Owner string

	Name     string // of the target, from the page
	isScript bool   // the site key comes from the address of a script
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
		{"service", "solving `service`: " + strings.Join(targets.Services(), ", "), &a.Service, nil,
			func(s string) bool { return slices.Contains(targets.Services(), s) }},
		{"key-variable", "environment `variable` with the account's key", &a.Variable, a.usualVariable,
			regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`).MatchString}, // not the key itself
		{"page", "`address` of the page, such as https://staging.example.com/login", &a.Page, nil,
			regexp.MustCompile(`^https?://[^/\s]+\S*$`).MatchString},
		{"sitekey", "site `key`: data-sitekey=… in the source of the page, or render=… in the address of a script", &a.Sitekey, nil, a.isSitekey},
		{"type", "`type`: recaptcha_v2, recaptcha_v3, hcaptcha or turnstile", &a.Type, a.usualType,
			func(s string) bool { return slices.Contains(captcha.Types(), captcha.Type(s)) }},
		{"owner", "responsible `person` or team, such as qa@example.com", &a.Owner, nil, func(s string) bool { return s != "" }},
	}
	for _, q := range questions {
		command.Flags().StringVar(q.into, q.flag, "", q.help)
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if _, err := os.Stat(*config); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s exists: remove it, or name another file by --config", *config))
		}
		lines := bufio.NewScanner(c.Stdin)
		for _, q := range questions {
			if err := q.ask(c, lines); err != nil {
				return err
			}
		}
		return a.write(command.Context(), c, *config)
	}
	return command
}

// question is one answer, which a flag or a line of the input gives.
type question struct {
	flag, help string
	into       *string
	usual      func() string     // the answer of an empty line; nil = there is none
	isValid    func(string) bool // whether an answer can be used
}

// ask asks until the answer is valid or the input ends. An answer is not repeated, because it may be a key.
func (q *question) ask(c *cli.Console, lines *bufio.Scanner) error {
	usual, help := "", strings.ReplaceAll(q.help, "`", "")
	if q.usual != nil {
		usual = q.usual()
	}
	for given := *q.into != ""; !q.isValid(*q.into); given = true {
		if given {
			_, _ = fmt.Fprintln(c.Stderr, "not a valid answer")
		}
		_, _ = fmt.Fprintf(c.Stderr, "%s%s: ", help, strings.TrimSuffix(" ("+usual+")", " ()"))
		if !lines.Scan() {
			_, _ = fmt.Fprintln(c.Stderr)
			if given || usual == "" {
				return cli.UsageError("--" + q.flag + " needs a valid answer: " + help)
			}
		}
		*q.into = cmp.Or(strings.TrimSpace(lines.Text()), usual)
	}
	return nil
}

// usualVariable returns the name of a variable for the key of an account at the service.
func (a *answers) usualVariable() string {
	return strings.NewReplacer("2", "TWO", "-", "_").Replace(strings.ToUpper(a.Service)) + "_API_KEY"
}

// isSitekey extracts the sitekey from a copied text, such as an attribute or a URL.
func (a *answers) isSitekey(text string) bool {
	found := sitekey.FindStringSubmatch(text)
	if found != nil {
		a.isScript, a.Sitekey = a.isScript || found[1] == "render", found[2]
	}
	return found != nil
}

var (
	sitekey    = regexp.MustCompile(`^(?:.*\b(render|sitekey)=)?["']?([\w-]{10,})["']?$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// usualType returns the type whose site keys look like this one.
func (a *answers) usualType() string {
	switch {
	case targets.IsTurnstileKey(a.Sitekey):
		return string(captcha.Turnstile)
	case uuid.MatchString(a.Sitekey):
		return string(captcha.HCaptcha)
	case a.isScript:
		return string(captcha.RecaptchaV3)
	}
	return string(captcha.RecaptchaV2)
}

// write checks the file, writes it, and tries the account if its key is known.
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
	set, err := targets.Parse(config, []byte(text.String()), targets.References{Variable: func(name string) (string, bool) {
		if name == a.Variable {
			return cmp.Or(key, "unset"), true
		}
		return c.Lookup(name)
	}})
	if err == nil {
		err = create(config, text.String())
	}
	if err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	next := "next:\n"
	if key == "" {
		next += "  export " + a.Variable + "=…\n"
	}
	p := &printer{Console: c}
	err = cmp.Or(c.Print("wrote "+config), p.print(describe(set, config)...))
	if err == nil {
		err = c.Print(next + "  poold serve --config " + config + "\n  curl -s 'http://127.0.0.1:8080/pool/" + a.Name + "/token?wait=60s'")
	}
	if err != nil || key == "" {
		return err
	}
	return checkLive(ctx, p, set, nil)
}

func create(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // G302: it holds no secret
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	return err
}
