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
	Service, Variable, Page, Sitekey, Owner string
	Type, Name                              string // chosen by the others unless a flag gives the type
}

// Init returns the command `poold init`.
func Init(c *cli.Console) *cobra.Command {
	a := new(answers)
	command := &cobra.Command{
		Use:   "init",
		Short: "write a first pools.yaml from five answers",
		Long: "Asks for what a first pools.yaml needs, and writes the file with comments if it is valid. A flag answers a\n" +
			"question. If the variable with the account's key is set, the key is tried; nothing is bought.",
		Example: "  poold init --config my-pools.yaml\n" +
			"  poold init --service captchaai --page https://staging.example.com/login \\\n" +
			"    --sitekey 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI --owner qa@example.com",
		Args: cobra.NoArgs,
	}
	config := cli.ConfigFlag(command, c)
	questions := []struct {
		flag, help string
		into       *string
		usual      func() string // nil = an answer is needed
	}{
		{"service", "solving `service`: " + strings.Join(targets.Services(), ", "), &a.Service, nil},
		{"key-variable", "environment `variable` with the account's key", &a.Variable, a.usualVariable},
		{"page", "`address` of the page with the CAPTCHA", &a.Page, nil},
		{"sitekey", "site `key` of the page: data-sitekey=… in its source, or render=… in the address of a script", &a.Sitekey, nil},
		{"owner", "responsible `person` or team", &a.Owner, nil},
	}
	for _, q := range questions {
		command.Flags().StringVar(q.into, q.flag, "", q.help)
	}
	command.Flags().StringVar(&a.Type, "type", "", "`type` of the CAPTCHA, if its site key does not tell it")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if _, err := os.Stat(*config); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fmt.Errorf("%s exists: remove it, or name another file by --config", *config))
		}
		lines := bufio.NewScanner(c.Stdin)
		for _, q := range questions {
			usual := ""
			if q.usual != nil {
				usual = q.usual()
			}
			if *q.into != "" {
				continue
			}
			_, _ = fmt.Fprintf(c.Stderr, "%s%s: ", strings.ReplaceAll(q.help, "`", ""), strings.TrimSuffix(" ("+usual+")", " ()"))
			if !lines.Scan() { // the answer is empty
				_, _ = fmt.Fprintln(c.Stderr)
			}
			if *q.into = cmp.Or(strings.TrimSpace(lines.Text()), usual); *q.into == "" {
				return cli.UsageError("--" + q.flag + " is missing")
			}
		}
		return a.write(command.Context(), c, *config)
	}
	return command
}

// usualVariable returns the name of a variable for the key of an account at the service.
func (a *answers) usualVariable() string {
	return strings.NewReplacer("2", "TWO", "-", "_").Replace(strings.ToUpper(a.Service)) + "_API_KEY"
}

var (
	isVariable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// write checks the file, writes it, and tries the account if its key is known.
func (a *answers) write(ctx context.Context, c *cli.Console, config string) error {
	if !isVariable.MatchString(a.Variable) { // perhaps the key itself: it is not printed
		return cli.UsageError("--key-variable is the name of a variable such as " + a.usualVariable() + ", not the key")
	}
	a.Type = cmp.Or(a.Type, typeOf(a.Sitekey))
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
	err = p.print(describe(set, config)...)
	if err == nil {
		err = c.Print(next + "  poold serve --config " + config + "\n  curl -s 'http://127.0.0.1:8080/pool/" + a.Name + "/token?wait=60s'")
	}
	if err != nil || key == "" {
		return err
	}
	return checkLive(ctx, p, set, nil)
}

// typeOf returns the type whose site keys look like this one.
func typeOf(sitekey string) string {
	switch {
	case targets.IsTurnstileKey(sitekey):
		return string(captcha.Turnstile)
	case uuid.MatchString(sitekey):
		return string(captcha.HCaptcha)
	}
	return string(captcha.RecaptchaV2)
}

func create(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // G302: it holds no secret
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	return err
}
