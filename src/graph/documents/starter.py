"""The document that ``knime-mcp graph new`` writes; it runs unchanged, and its comments explain the rest."""

from typing import Final

STARTER: Final = """\
# A graph document: an MCP server whose tools are graphs of nodes.
#   knime-mcp graph check FILE      finds everything that is wrong with it
#   knime-mcp graph show FILE       draws it
#   knime-mcp graph run FILE greet name=Ada hour=9
#   knime-mcp graph serve FILE      publishes its tools
version: "1.0"

server:
  name: starter
  version: 1.0.0
  title: My first graph
  instructions: Greets people.

# What one run may use. A run that loops without end stops here.
executionLimits:
  maxNodeExecutions: 1000
  maxExecutionTimeMs: 60000

# Servers that nodes of type mcp call. Secrets come from the environment: ${NAME}.
# mcpServers:
#   files:
#     command: npx
#     args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
#   search:
#     type: streamableHttp
#     url: https://mcp.example.com/mcp
#     headers:
#       Authorization: Bearer ${SEARCH_TOKEN}

tools:
  - name: greet
    description: Greets a person according to the time of day.
    inputSchema:
      type: object
      properties:
        name:
          type: string
          description: Who is greeted.
        hour:
          type: integer
          minimum: 0
          maximum: 23
          description: Hour of the day.
      required: [name, hour]
    outputSchema:
      type: object
      properties:
        greeting: {type: string}
      required: [greeting]
    nodes:
      # Every tool has one entry node. Its output is the arguments.
      - id: entry
        type: entry
        next: time_of_day

      # A switch takes the first way whose rule (JSON Logic) holds. Each var is a JSONata expression;
      # the output of every node that ran is there under the node's id.
      - id: time_of_day
        type: switch
        conditions:
          - rule: {"<": [{var: entry.hour}, 12]}
            next: morning
        next: later

      # A transform evaluates a JSONata expression (https://jsonata.org).
      - id: morning
        type: transform
        transform:
          expr: '{"greeting": "Good morning, " & entry.name}'
        next: exit

      - id: later
        type: transform
        transform:
          expr: '{"greeting": "Hello, " & entry.name}'
        next: exit

      # A node that calls a tool looks like this:
      # - id: list
      #   type: mcp
      #   server: files
      #   tool: list_directory
      #   args:
      #     path: {expr: entry.folder}
      #   next: exit

      # The result is the output of the node that ran before the exit node.
      - id: exit
        type: exit
"""
