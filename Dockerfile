# The gateway of the node knowledge. Build: docker build -t knime-mcp-gateway .
# Run: docker run -p 8000:8000 -v knime-mcp:/data knime-mcp-gateway
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE knime.yml pixi.toml ./
COPY src ./src
COPY icons ./icons
COPY examples/demo ./examples/demo
COPY packages/node-knowledge ./packages/node-knowledge
RUN pip install --no-cache-dir --prefix=/installed . './packages/node-knowledge[all]'

FROM python:3.11-slim
COPY --from=build /installed /usr/local
# Keys, and a catalogue of your own if there is one, outlive the container here.
RUN useradd --system --uid 10001 --create-home knime-mcp \
    && install -d -o knime-mcp -g knime-mcp -m 0700 /data /data/knime-mcp
USER knime-mcp
ENV XDG_DATA_HOME=/data \
    GATEWAY_HOST=0.0.0.0 \
    GATEWAY_PORT=8000 \
    PYTHONUNBUFFERED=1 \
    LOG_FORMAT=json
VOLUME /data
# The listener without keys binds the container's own loopback: it is not published, and cannot be.
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/api/v1/public/health', timeout=4)"]
CMD ["knime-nodes", "gateway"]
