package provider

import "poold/internal/targets"

func init() {
	spoken[targets.ProtocolInPHP] = dialect{
		profile: captchaAI, sold: `{"status":1,"request":"5"}`, granted: `"status":1`,
		refusals: []string{`{"status":0,"request":"CODE"}`,
			`{"status":0,"request":"CODE","error_text":"a sentence"}`, "CODE"},
	}
}
