package provider

import "poold/internal/targets"

func init() {
	spoken[targets.ProtocolInPHP] = dialect{
		targets.ProtocolInPHP, captchaAI, `{"status":1,"request":"5"}`, `"status":1`,
		[]string{`{"status":0,"request":"CODE"}`, `{"status":0,"request":"CODE","error_text":"a sentence"}`, "CODE"},
	}
}
