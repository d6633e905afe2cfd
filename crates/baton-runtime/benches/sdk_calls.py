"""The calls of calls.rs, made by the official Python SDKs: CPU time a call."""
import asyncio
import os
import sys
import time

import anthropic
import httpx
import openai

CALLS = 1000


async def one(kind, client):
    if kind == "anthropic":
        async with client.messages.stream(
            model="model-x", max_tokens=1000, system="You are careful.",
            messages=[{"role": "user", "content": "Look at src/lib.rs"}],
        ) as stream:
            return (await stream.get_final_message()).content[0].text
    if kind == "openai-responses":
        text = ""
        async for event in await client.responses.create(
            model="model-x", max_output_tokens=1000, instructions="You are careful.",
            input="Look at src/lib.rs", stream=True,
        ):
            if event.type == "response.output_text.delta":
                text += event.delta
        return text
    text = ""
    async for chunk in await client.chat.completions.create(
        model="model-x", max_tokens=1000, stream=True,
        messages=[{"role": "system", "content": "You are careful."}, {"role": "user", "content": "Look at src/lib.rs"}],
    ):
        if chunk.choices and chunk.choices[0].delta.content:
            text += chunk.choices[0].delta.content
    return text


async def main(kind, url):
    pool = httpx.Limits(max_connections=CALLS, max_keepalive_connections=0)
    if kind == "anthropic":
        http = anthropic.DefaultAsyncHttpxClient(limits=pool)
        client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=http)
    else:
        http = openai.DefaultAsyncHttpxClient(limits=pool)
        client = openai.AsyncOpenAI(api_key="k", base_url=url + "/v1", http_client=http)
    await one(kind, client)
    before, start = time.process_time(), time.time()
    texts = await asyncio.gather(*(one(kind, client) for _ in range(CALLS)))
    assert all(text == "Hello, 世界!" for text in texts), texts[:3]
    cpu = (time.process_time() - before) * 1000 / CALLS
    print(f"python {kind:<17} {len(texts)} calls {cpu:8.3f} ms CPU a call  {time.time() - start:6.2f} s in all")


if __name__ == "__main__":
    os.environ.pop("HTTP_PROXY", None)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
