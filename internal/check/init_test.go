package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/cli"
)

// TestInit: flags and lines of the input answer the questions; a file is written only if it is valid and new.
func TestInit(t *testing.T) {
	const flags = "--service captchaai --page https://staging.example.com/login/ --sitekey 1x00000000000000000000AA " +
		"--owner qa@example.com"
	for name, c := range map[string]struct {
		args, input string
		printed     []string // parts of the output, the error and the file
		err         string
	}{
		"answers": {"", "captcha\n2captcha\n\nwww.example.com\nhttps://www.example.com/a?b=c\nabc\n" +
			"data-sitekey=\"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI\"\n\nqa: \"team\"\n", []string{
			"wrote FILE", "captchaai; did you mean captchaai?\nsolving service", "begin with https://\naddress",
			"must be only the value of data-sitekey", "service: 2captcha\n", "key: ${TWOCAPTCHA_API_KEY}", "  www-a: ",
			"type: recaptcha_v2                       # or recaptcha_v3, hcaptcha, turnstile\n", `owner: "qa: \"team\""`,
			`pageurl: "https://www.example.com/a?b=c"`, "export TWOCAPTCHA_API_KEY=…", "/pool/www-a/token",
		}, ""},
		"flags": {flags, "\n", []string{"  staging-login: ", "type: turnstile ", "FILE is valid"}, ""},
		"an address": {flags + " --url http://127.0.0.1:8090", "\n",
			[]string{"captchaai\n    url: \"http://127.0.0.1:8090\"\n    key"}, ""},
		"a part": {strings.Replace(flags, "1x00000000000000000000AA", "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKh", 1), "",
			[]string{"warning: targets.staging-login.sitekey: has 39 characters"}, ""},
		"a type": {flags + " --type recaptcha_v3", "\n",
			[]string{"recaptcha_v3", "warning: targets.staging-login.sitekey: looks like a key of turnstile"}, ""},
		"hcaptcha": {strings.Replace(flags, "1x00000000000000000000AA", "10000000-ffff-ffff-ffff-000000000001", 1), "",
			[]string{"type: hcaptcha "}, ""},
		"a script": {strings.Replace(flags, "1x00000000000000000000AA",
			"https://h/api.js?render=6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", 1), "", []string{"type: recaptcha_v3 "}, ""},
		"no answer": {"", "captchaai\n", nil, "flags:\n  --page: is missing\n  --sitekey: is missing\n  --owner: is missing"},
		"the key":   {flags + " --key-variable 0123456789abcdef", "", nil, "--key-variable: looks like the key itself"},
		"capitals":  {flags + " --key-variable ABCDEF0123456789", "", nil, "--key-variable: looks like the key itself"},
		"a value":   {flags + " --key-variable ${KEY}", "", nil, "capitals, digits and _, without a $"},
		"small": {flags + " --key-variable key", "", nil,
			"--key-variable: must be the name of a variable, such as CAPTCHAAI_API_KEY, not the key"},
		"a mistake": {flags + " --type turnstyle", "", nil,
			"--type: must be one of recaptcha_v2, recaptcha_v3, hcaptcha, turnstile; did you mean turnstile?"},
		"an owner": {strings.Replace(flags, "qa@example.com", strings.Repeat("x", 3000), 1), "", nil,
			"nothing was written: FILE:11: targets.staging-login.owner: "},
		"a service": {strings.Replace(flags, "captchaai", "capcha", 1), "", nil, "--service: must be one of 2captcha"},
		"a used key": {flags + " --key-variable SIMULATED", "", []string{"error: provider captchaai: "},
			"live checks failed: 1; correct that (SIMULATED has the key), then"},
	} {
		path, out := filepath.Join(t.TempDir(), "pools.yaml"), new(strings.Builder)
		run := func() error {
			command := Init(&cli.Console{Lookup: func(name string) (string, bool) {
				return map[string]string{"SIMULATED": "k", "HTTPS_PROXY": ""}[name], name == "SIMULATED"
			}, Stdin: strings.NewReader(c.input), Stdout: out, Stderr: out})
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs(append([]string{"--config", path}, strings.Split(strings.TrimSpace(c.args), " ")...))
			if c.args == "" {
				command.SetArgs([]string{"--config", path})
			}
			return command.ExecuteContext(t.Context())
		}
		err := run()
		file, _ := os.ReadFile(path) // "" if there is none
		all := strings.ReplaceAll(out.String(), path, "FILE") + string(file)
		for _, part := range c.printed {
			if !strings.Contains(all, part) {
				t.Errorf("%s: %q is missing in\n%s", name, part, all)
			}
		}
		if (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(strings.ReplaceAll(err.Error(), path, "FILE"), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if written := len(file) > 0; written != (c.printed != nil) || strings.Contains(all, "0123456789abcdef") {
			t.Errorf("%s: a file was written: %t\n%s", name, written, all)
		}
		if err := run(); c.printed != nil && (err == nil || !strings.Contains(err.Error(), "exists")) {
			t.Errorf("%s: a second run: %v", name, err)
		}
	}
}
