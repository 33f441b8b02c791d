package pool

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *redis.Script
	place, mark, submitted, unknown     *redis.Script
	settle, fail, find, adopt, renew    *redis.Script
	reserve, budget                     *redis.Script
}

func loadScripts() scripts {
	common := source("common.lua")
	script := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + source(name))
	}
	return scripts{
		take:      script("take.lua"),
		place:     script("place.lua"),
		submitted: script("submitted.lua"),
		settle:    script("settle.lua"),
		fail:      script("fail.lua"),
		giveBack:  script("giveback.lua"),
		look:      script("look.lua"),
		reserve:   script("reserve.lua"),
		budget:    script("budget.lua"),
		mark:      script("mark.lua"),
		unknown:   script("unknown.lua"),
		find:      script("find.lua"),
		adopt:     script("adopt.lua"),
		renew:     script("renew.lua"),
		flush:     script("flush.lua"),
		report:    script("report.lua"),
	}
}

func source(name string) string {
	text, err := sources.ReadFile(name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
