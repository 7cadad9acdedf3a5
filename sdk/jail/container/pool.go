package container

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// Pool has one engine per image of a family. It is safe for concurrent use. Options must be set.
type Pool struct {
	// Options are those of all engines. The image can contain {id}, the query's name; {instance}, the
	// same in the spelling of SWE-bench's published images; and {image}, the image that the task names.
	Options Options

	mu      sync.Mutex
	engines map[string]*Engine
}

// Image returns the image for a query. own is the image that its task names.
func (p *Pool) Image(id, own string) (string, error) {
	name := p.Options.Image
	for _, part := range [][2]string{
		{"{id}", id}, {"{instance}", strings.ToLower(strings.ReplaceAll(id, "__", "_1776_"))}, {"{image}", own},
	} {
		if strings.Contains(name, part[0]) && part[1] == "" {
			return "", fmt.Errorf("image %s requires %s, but the query has none", p.Options.Image, part[0])
		}
		name = strings.ReplaceAll(name, part[0], part[1])
	}
	if strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n") {
		return "", fmt.Errorf("%q is not an image name", name)
	}
	return name, nil
}

// For returns the engine for a query's image, which it has pulled.
func (p *Pool) For(ctx context.Context, id, own string) (*Engine, error) {
	name, err := p.Image(id, own)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	e := p.engines[name]
	if e == nil {
		options := p.Options
		options.Image = name
		if e, err = Open(ctx, options); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		if p.engines == nil {
			p.engines = map[string]*Engine{}
		}
		p.engines[name] = e
	}
	p.mu.Unlock()
	return e, e.Pull()
}
