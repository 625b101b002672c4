# Hardly more than imports: advise has nothing to say of them.
import argparse
import asyncio
import concurrent.futures
import email.message
import http.client
import json
import logging
import unittest.mock
import urllib.request
import xml.dom.minidom

print(len(json.dumps({"modules": [m.__name__ for m in (argparse, asyncio, email, http, logging)]})))
