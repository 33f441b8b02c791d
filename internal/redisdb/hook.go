package redisdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// hook limits each exchange to CallTimeout, and converts errors to ErrDown. It does not convert redis.Nil, which
// means that a key does not exist.
type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		return failure(command, next(ctx, command))
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		err := next(ctx, commands)
		for _, command := range commands {
			command.SetErr(failure(command, command.Err()))
		}
		return failure(commands[0], err)
	}
}

func failure(command redis.Cmder, err error) error {
	if err == redis.Nil { //nolint:errorlint // the failure of all sentinels may wrap it
		return err
	}
	err = Down(err)
	if down, known := errors.AsType[*downError](err); known && down.reason == reasonDenied && down.more == "" {
		down.more = right(command, down.Error())
	}
	return err
}

var (
	deniedCommand = regexp.MustCompile(`run the '([^']+)' command`)
	lineOfScript  = regexp.MustCompile(`@user_script: ?(\d+)`)
	calls         = regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	kindOfKey     = regexp.MustCompile(`^([^:]*:[^:]*:).*`)

	scripts sync.Map // SHA1 -> text
)

// NewScript makes a script whose errors can name the command: Redis before 7.2 names only the line.
func NewScript(text string) *redis.Script {
	s := redis.NewScript(text)
	scripts.Store(s.Hash(), text) // the first argument of EVALSHA
	scripts.Store(text, text)     // and of EVAL
	return s
}

// right names the right that a call lacks, as far as the error and the call show it. Redis names no key, so the text
// shows the first key, without its last part, which may be private.
func right(call redis.Cmder, text string) string {
	lacks, command, args, key := ": the keys of ", call.Name(), call.Args(), 1
	if named := deniedCommand.FindStringSubmatch(text); named != nil {
		command = named[1]
	}
	if strings.HasPrefix(call.Name(), "eval") {
		key = 3
		script, _ := scripts.Load(args[1])
		if at := lineOfScript.FindStringSubmatch(text); at != nil && script != nil {
			line, _ := strconv.Atoi(at[1])
			for _, named := range calls.FindAllStringSubmatch(strings.Split(script.(string), "\n")[line-1], 1) {
				command = named[1]
			}
		}
	}
	if strings.Contains(text, " run th") {
		lacks = ": the command "
	}
	if lacks += strings.ToUpper(command); len(args) > key {
		lacks += ", here with " + kindOfKey.ReplaceAllString(fmt.Sprint(args[key]), "$1*")
	}
	return lacks
}
